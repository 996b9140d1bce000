-- What runs around the switch of a stage, and what checks build.

-- The steps as they were when it was about to touch its target, an object: whatever the rules say later, what ran then is
-- undone as it was meant then.
alter table promotion add column steps blob check (length(steps) = 32);

-- One row per step that began. A row without a result is one that nobody saw the end of.
create table step (
    promotion integer not null references promotion (id),  -- for which it was run; an undo moves the rows of what it undoes
    name      text not null,
    number    integer not null check (number >= 1),        -- its place in the order
    state     text not null check (state in
        ('running', 'done', 'failed', 'not-run', 'undoing', 'undone', 'undo-failed')),
    runs      integer not null check (runs >= 0),          -- how often it was begun
    exit_code integer,
    wall_ms   integer,
    log       blob check (length(log) = 32),               -- an object: what it printed last
    moved_at  integer not null,
    seq       integer not null,                            -- its payload has the reason
    primary key (promotion, name)
) strict, without rowid;

-- What a check built: an object that lists it, and what it was built of and how. The same again is not built again.
alter table check_result add column outputs blob check (length(outputs) = 32);
alter table check_result add column built_of blob check (length(built_of) = 32);
create index check_result_by_origin on check_result (built_of)
    where built_of is not null;
