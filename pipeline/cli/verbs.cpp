#include "pipeline/cli/verbs.h"

#include <iterator>

#include "pipeline/cli/context.h"

namespace gradus {

Handler withService(const OpenService& open, Result (*handler)(Service&, Context&)) {
    return [open, handler](Context& context) {
        Service service = open(context.host);
        return handler(service, context);
    };
}

std::vector<Verb> allVerbs(const OpenService& open) {
    std::vector<Verb> all;
    for (auto* family :
         {&tryVerbs,   &raceVerbs,     &sandboxVerbs, &changeVerbs,   &checkVerbs, &promoteVerbs, &backVerbs,
          &tendVerbs,  &wordVerbs,     &doctorVerbs,  &statusVerbs,   &whyVerbs,   &blameVerbs,   &initVerbs,
          &rulesVerbs, &simulateVerbs, &auditVerbs,   &timelineVerbs, &pastVerbs,  &exportVerbs,  &drillVerbs,
          &storeVerbs, &demoVerbs,     &monitorVerbs, &roomVerbs}) {
        std::vector<Verb> rows = family(open);
        all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
    }
    std::vector<Verb> own = gradusVerbs();
    all.insert(all.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
    return all;
}

}  // namespace gradus
