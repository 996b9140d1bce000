-- What a check was asked, so that its yes can count again for exactly the same question, and how it was defined, so that
-- rules which demand more are noticed.
alter table check_result add column asked blob check (length(asked) = 32);
alter table check_result add column definition blob check (length(definition) = 32);
alter table check_result add column reused integer references promotion (id);  -- whose answer it is; none: it ran
create index check_result_by_question on check_result (asked) where verdict = 'passed' and reused is null;
