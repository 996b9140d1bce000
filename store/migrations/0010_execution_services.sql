-- What became of the services beside a command, with their logs: one object for all of them.
alter table execution add column services blob check (length(services) = 32);
