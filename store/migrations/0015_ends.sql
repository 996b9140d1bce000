-- What ended in a stage lately: asked for wherever a policy sets a budget, and its cost must not grow with the history.
create index promotion_by_end on promotion (project, stage, moved_at) where finished = 1;
