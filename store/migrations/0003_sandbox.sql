-- What the events say about sandboxes, their layers, and the commands that ran in them. As in the tables before, free
-- text (names, paths, command lines) stays in payloads, and `seq` is no foreign key.

create table sandbox (
    id          integer primary key,
    project     integer not null references project (id),
    actor       integer not null references actor (id),
    kind        text not null check (kind = 'transient' or kind = 'kept'),
    ended       text check (
        ended = 'discarded' or ended = 'removed' or ended = 'expired' or ended = 'reaped' or ended = 'failed'),
    base        text,              -- a commit; null: the directory as it was
    since_s     integer not null,  -- the file system's clock before the directory was first shown inside
    since_ns    integer not null,
    layer       integer not null,  -- takes the changes; `layer.sandbox` and this point at each other
    forked_from integer references sandbox (id),
    owner       text,              -- transient ones: boot, pid namespace, pid, start time
    lifetime_ms integer not null,  -- kept ones: after the last use
    created_at  integer not null,
    used_at     integer not null,
    ended_at    integer,
    change_set  blob check (length(change_set) = 32),  -- an object
    name_seq    integer,           -- the event whose payload has the name
    seq         integer not null   -- the event that made it: its payload has the directory
) strict;
-- Ended ones are nearly all of the table.
create index sandbox_living on sandbox (kind, id) where ended is null;

-- A directory of changes over what is below it. A frozen one is never written again, and any number of sandboxes may
-- stand on it. A row stays when nothing stands on it any more; its directory goes.
create table layer (
    id      integer primary key,
    below   integer references layer (id),  -- null: the base itself
    sandbox integer not null references sandbox (id),
    frozen  integer not null check (frozen = 0 or frozen = 1),
    used    integer not null check (used = 0 or used = 1),  -- a command may have written to it
    seq     integer not null
) strict;

create table snapshot (
    id       integer primary key,
    sandbox  integer not null references sandbox (id),
    layer    integer not null references layer (id),
    taken_at integer not null,
    removed  integer not null check (removed = 0 or removed = 1),
    seq      integer not null  -- its payload has the name
) strict;
create index snapshot_by_sandbox on snapshot (sandbox, id) where removed = 0;

create table execution (
    id           integer primary key,
    sandbox      integer not null references sandbox (id),
    state        text not null check (state = 'running' or state = 'finished' or state = 'lost'),
    owner        text not null,  -- the process that waits for it: boot, pid namespace, pid, start time
    backend      text not null,
    guarantees   text not null,
    without      text not null,  -- of the floor, what was given up
    verdict      text check (
        verdict = 'ok' or verdict = 'failed' or verdict = 'timeout' or verdict = 'oom' or verdict = 'killed'
        or verdict = 'limit' or verdict = 'setup-failed'),
    exit_code    integer,
    signal       integer,
    stdout       blob check (length(stdout) = 32),  -- objects; null where nothing was written
    stderr       blob check (length(stderr) = 32),
    stdout_bytes integer not null,
    stderr_bytes integer not null,
    truncated    integer not null check (truncated = 0 or truncated = 1),
    started_at   integer not null,
    wall_ms      integer not null,
    cpu_ms       integer not null,
    peak_memory  integer,
    limits       text not null,
    seq          integer not null  -- the event that started it: its payload has the command line
) strict;
create index execution_by_sandbox on execution (sandbox, id);
create index execution_running on execution (id) where state = 'running';
