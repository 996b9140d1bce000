-- What the events say about stages and targets: what each holds, who is at work there, what may not come back.

-- Set when a promotion is about to touch its target, before it does.
alter table promotion add column target text;  -- what it touches, by the driver's canonical name
alter table promotion add column checkpoint blob check (length(checkpoint) = 32);  -- an object: the way back
alter table promotion add column tree blob check (length(tree) = 32);  -- the tree that its checks looked at
-- What the stage held before: the promotion that brought it, and the tree.
alter table promotion add column previous integer references promotion (id);
alter table promotion add column previous_tree blob check (length(previous_tree) = 32);

alter table check_result add column phase text not null default 'before' check (phase = 'before' or phase = 'after');
alter table check_result add column execution integer references execution (id);

-- A stage holds a tree. No row, or no tree: it is empty, or nobody adopted what is there.
create table stage_state (
    project   integer not null references project (id),
    stage     text not null,
    promotion integer references promotion (id),       -- that brought the tree; null: adopted
    tree      blob check (length(tree) = 32),
    stuck     integer references promotion (id),       -- closed until somebody looked: its rollback failed
    attention integer references promotion (id),       -- its rollback left somebody's edits in place
    seq       integer not null,
    primary key (project, stage)
) strict, without rowid;

-- One row per target that was ever touched. The lock itself is an flock beside the target; the row says who had it last,
-- and its fence only grows.
create table target (
    name      text primary key,
    fence     integer not null check (fence >= 1),
    promotion integer references promotion (id),  -- at work there; null: nobody
    seq       integer not null
) strict, without rowid;

-- Automation does not bring these changes into these stages again.
create table change_hold (
    change    integer not null references change (id),
    stage     text not null,
    promotion integer references promotion (id),  -- whose failure it was; null: a person's own
    seq       integer not null,                   -- its payload has the reason
    primary key (change, stage)
) strict, without rowid;
