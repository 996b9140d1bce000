-- What a stage went through, newest first: asked for at every promotion, and its cost must not grow with the history.
create index promotion_by_stage on promotion (project, stage, id);
