-- Where a promotion stands in its stage's queue: its own number, unless it took the place of another. What older releases
-- left waiting keeps its own.
alter table promotion add column place integer;
update promotion set place = id;
create index promotion_line on promotion (project, stage, place) where finished = 0;
-- At work, and few at any time: found without looking at all that wait.
create index promotion_active on promotion (project, stage, id) where finished = 0 and state <> 'waiting';
