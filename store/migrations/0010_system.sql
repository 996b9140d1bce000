-- A sandbox may be a copy of the whole system, not of the project alone.
alter table sandbox add column system integer not null default 0 check (system = 0 or system = 1);
