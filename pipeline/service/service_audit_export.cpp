#include "pipeline/service/export_wish.h"
#include "store/audit_export.h"

namespace gradus {

AuditExport Service::exportAudit(const ExportWish& wish, const VerifyProgress& progress) {
    Store& store = existing();
    const AuditQuery query = resolve(wish.request, store);
    ExportSelection selection{.change = query.change, .stage = query.stage};
    if (query.since) selection.since = toMillis(*query.since);
    if (query.until) selection.until = toMillis(*query.until);
    return gradus::exportAudit(store.sql(), store.anchor(), selection, around_.clock.now(), wish.file, progress);
}

}  // namespace gradus
