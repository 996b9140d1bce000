-- What the events say about projects, changes and promotions. Only projection code writes here. Free text stays in
-- payloads: `seq` names the event that carries it, so that redacting changes no row of these tables. It is no foreign
-- key: the projection writes it from the event in hand, and looking that up again would cost every step a seek.

create table actor (
    id   integer primary key,
    kind text not null check (kind = 'person' or kind = 'agent' or kind = 'daemon' or kind = 'ci'),
    seq  integer not null  -- its payload has the name
) strict;

-- A project is its real path (in the payload), its device and its inode.
create table project (
    id     integer primary key,
    device integer not null,
    inode  integer not null,
    seq    integer not null
) strict;
create index project_by_inode on project (inode, device);

-- The rules a person trusted last for a project; earlier ones are in the log.
create table trusted_rules (
    project integer primary key references project (id),
    rules   blob not null check (length(rules) = 32),  -- digest of the file set
    files   blob not null check (length(files) = 32),  -- the object that holds the files
    actor   integer not null references actor (id),
    seq     integer not null
) strict;

create table change (
    id       integer primary key,
    project  integer not null references project (id),
    actor    integer not null references actor (id),
    sponsor  integer references actor (id),
    revision integer not null check (revision >= 1),  -- the latest
    seq      integer not null
) strict;
create index change_by_project on change (project, id);

-- A rebase or merge is a new revision in the change's lineage; none is ever replaced.
create table revision (
    change     integer not null references change (id),
    number     integer not null check (number >= 1),
    change_set blob not null check (length(change_set) = 32),  -- an object
    base       blob not null check (length(base) = 32),
    patch      blob not null check (length(patch) = 32),
    seq        integer not null,
    primary key (change, number)
) strict, without rowid;

-- The legal steps, filled from the program's own table when the schema is made.
create table promotion_edge (
    from_state text not null,
    to_state   text not null,
    primary key (from_state, to_state)
) strict, without rowid;

-- One row per attempt; a retry or an undo is a new row, so history is never rewritten.
-- The checks are spelled out with "or": SQLite evaluates "in (…)" by building a temporary table for every row, which
-- made each step twenty times as expensive.
create table promotion (
    id        integer primary key,
    project   integer not null references project (id),
    change    integer not null references change (id),
    revision  integer not null,
    stage     text not null,
    state     text not null check (
        state = 'queued' or state = 'waiting' or state = 'checking' or state = 'applying'
        or state = 'verifying' or state = 'soaking' or state = 'promoted' or state = 'rejected'
        or state = 'superseded' or state = 'stale' or state = 'expired' or state = 'cancelled'
        or state = 'rolling-back' or state = 'rolled-back' or state = 'stuck'),
    finished  integer not null check (finished = 0 or finished = 1),  -- no edge leads out of the state
    cause     text not null check (
        cause = 'proceeded' or cause = 'passed' or cause = 'failed' or cause = 'errored'
        or cause = 'timed-out' or cause = 'cancelled' or cause = 'inconclusive'),
    rules     blob not null check (length(rules) = 32),
    undoes    integer references promotion (id),
    opened_at integer not null,
    moved_at  integer not null,
    seq       integer not null,  -- the last event that moved it
    foreign key (change, revision) references revision (change, number)
) strict;
create index promotion_by_change on promotion (change, id);
-- Finished ones are most of the table and nobody looks for them by stage and state.
create index promotion_unfinished on promotion (project, stage, id) where finished = 0;

create trigger promotion_starts_queued before insert on promotion when new.state <> 'queued'
begin
    select raise(abort, 'a promotion starts as queued');
end;

create trigger promotion_moves_along_edges before update of state on promotion
when not exists (select 1 from promotion_edge where from_state = old.state and to_state = new.state)
begin
    select raise(abort, 'not a legal step of a promotion');
end;

create table check_result (
    seq       integer primary key,
    promotion integer not null references promotion (id),
    name      text not null,
    verdict   text not null check (
        verdict = 'passed' or verdict = 'failed' or verdict = 'errored' or verdict = 'timed-out'
        or verdict = 'cancelled' or verdict = 'inconclusive'),
    evidence  blob not null check (length(evidence) = 32),
    exit_code integer,
    wall_ms   integer not null,
    log       blob check (length(log) = 32)  -- an object
) strict;
create index check_result_by_promotion on check_result (promotion);
