-- How long a promotion's after checks were seen to run on schedule: while it soaks, and while it is monitored once it is
-- promoted. One event now and then, not one per check.

-- Of one boot, deadlines are counted by the machine and not by a clock that can be set; null in what older releases wrote.
alter table promotion add column opened_boot text;
alter table promotion add column opened_uptime integer;

create table watch (
    promotion     integer primary key references promotion (id),
    phase         text not null check (phase = 'soak' or phase = 'monitor'),
    began_at      integer not null,
    began_boot    text not null,
    began_uptime  integer not null,
    counted_ms    integer not null check (counted_ms >= 0),  -- in which the checks ran on schedule
    gap_ms        integer not null check (gap_ms >= 0),      -- in which they did not
    looked_at     integer not null,                          -- as far as the two numbers reach
    looked_boot   text not null,
    looked_uptime integer not null,
    ended         integer not null check (ended = 0 or ended = 1),
    seq           integer not null
) strict;
create index watch_going_on on watch (phase, promotion) where ended = 0;
