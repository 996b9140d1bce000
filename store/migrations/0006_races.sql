-- What the events say about races: several approaches to one change, run at once and compared. What they were called,
-- what they did and how they compare is free text and stays in payloads.

create table race (
    id         integer primary key,
    project    integer not null references project (id),
    actor      integer not null references actor (id),
    owner      text not null,  -- boot, pid namespace, pid, start time: without an end, it is running or was lost
    outcome    text check (outcome = 'won' or outcome = 'no-winner' or outcome = 'moved' or outcome = 'cancelled'),
    change     integer references change (id),  -- the winner's
    started_at integer not null,
    ended_at   integer,
    seq        integer not null  -- the last event about it: its payload has the candidates
) strict;
