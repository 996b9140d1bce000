-- How many paths of its target a promotion was to write, known once it is about to. One that wrote nothing came in again
-- over itself, and goes out with what is below it. Null in what older releases wrote: it counts as nothing there.
alter table promotion add column paths integer check (paths >= 0);
