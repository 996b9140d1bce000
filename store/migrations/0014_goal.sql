-- The stage up to which somebody wants the change: what waits on the way goes on to it. Null in what older releases wrote,
-- and of an undo.
alter table promotion add column goal text;
