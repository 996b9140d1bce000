-- What people said about changes and stages, and what came of it. As in the tables before, reasons stay in payloads and
-- `seq` is the event that has them.

-- What the stage held, and what the checks had proven, when a promotion began to wait: what people are asked about.
alter table promotion add column base blob check (length(base) = 32);
alter table promotion add column evidence blob check (length(evidence) = 32);

-- A yes to one revision, under these rules, on this evidence, while the stage held this tree. Used at most once.
create table approval (
    id        integer primary key,
    project   integer not null references project (id),
    change    integer not null references change (id),
    revision  integer not null,
    stage     text not null,
    actor     integer not null references actor (id),
    rules     blob not null check (length(rules) = 32),
    base      blob not null check (length(base) = 32),
    evidence  blob check (length(evidence) = 32),  -- null: given before anything was checked
    roles     text not null,                       -- held when it was given, with commas between
    given_at  integer not null,
    withdrawn integer not null check (withdrawn = 0 or withdrawn = 1),
    used_by   integer references promotion (id),
    seq       integer not null,
    check (used_by is null or withdrawn = 0),
    foreign key (change, revision) references revision (change, number)
) strict;
create index approval_by_change on approval (change, stage);

-- What must not go on: a stage, a change, or a change in a stage; what is null is not limited.
create table hold (
    seq           integer primary key,
    project       integer not null references project (id),
    stage         text,
    change        integer references change (id),
    patch         blob check (length(patch) = 32),  -- of the change: a rebase of it is held, too
    only_machines integer not null check (only_machines = 0 or only_machines = 1),
    promotion     integer references promotion (id),  -- whose failure it was; null: a person's own
    actor         integer not null references actor (id),
    held_at       integer not null,
    ends_at       integer,
    check (stage is not null or change is not null)
) strict;
create index hold_by_project on hold (project);

insert into hold (seq, project, stage, change, patch, only_machines, promotion, actor, held_at)
select h.seq, e.project, h.stage, h.change,
    coalesce(
        (select r.patch from revision r join promotion p on p.change = r.change and p.revision = r.number
            where p.id = h.promotion),
        (select r.patch from revision r where r.change = h.change and r.seq < h.seq order by r.number desc limit 1)),
    h.promotion is not null, h.promotion, e.actor, e.at
from change_hold h join event e on e.seq = h.seq;
drop table change_hold;

-- A stage that shall keep one change.
create table stage_pin (
    project   integer not null references project (id),
    stage     text not null,
    change    integer not null references change (id),
    revision  integer,  -- null: any
    actor     integer not null references actor (id),
    pinned_at integer not null,
    seq       integer not null,
    primary key (project, stage)
) strict, without rowid;

-- Bytes, and a patch on whatever base, that shall never enter.
create table veto (
    seq        integer primary key,
    project    integer not null references project (id),
    change     integer not null references change (id),
    change_set blob not null check (length(change_set) = 32),
    patch      blob not null check (length(patch) = 32),
    stage      text,  -- null: any
    actor      integer not null references actor (id),
    vetoed_at  integer not null
) strict;
create index veto_by_project on veto (project);

create table halt (
    seq       integer primary key,
    project   integer references project (id),  -- null: every one
    actor     integer not null references actor (id),
    halted_at integer not null
) strict;

-- A gate that does not count, for one promotion.
create table gate_override (
    seq       integer primary key,
    promotion integer not null references promotion (id),
    gate      text not null,
    actor     integer not null references actor (id),
    roles     text not null,
    given_at  integer not null
) strict;
create index gate_override_by_promotion on gate_override (promotion);
