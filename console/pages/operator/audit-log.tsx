// Entries of the audit log by the server's filters, which the address keeps.
import { Code, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import type { Api } from "../../api/client.ts";
import { useApi } from "../../api/context.ts";
import { usePages } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { changesOf, changesText } from "../../domain/audit-change.ts";
import { csvOf } from "../../domain/csv.ts";
import { endOfDay, startOfDay } from "../../domain/days.ts";
import { text } from "../../text/operator-audit.ts";
import { Act } from "../../ui/act.tsx";
import { type Column, DataTable, save } from "../../ui/data-table.tsx";
import { DateFilter, FilterField, More } from "../../ui/filters.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Ago } from "../../ui/time.tsx";
import { AccountFilter } from "./account-choice.tsx";
import { AccountLink } from "./account-status.tsx";

type EntryPage = Responses["GET /v1/admin/audit"];
type Entry = EntryPage["entries"][number];

const path = "/v1/admin/audit";
const maxSaved = 10_000;
const pageSize = 200;

/** `account`: only acts by or on this one, as a part of its page. */
export function AuditLog({ account }: { account?: string }): ReactNode {
  const api = useApi();
  const [actor] = useFilter("actor");
  const [accountFilter] = useFilter("account");
  const [action] = useFilter("action");
  const [since] = useFilter("since");
  const [until] = useFilter("until");
  const filter = {
    actor,
    account: account ?? accountFilter,
    action,
    from: startOfDay(since),
    to: endOfDay(until),
  };
  const pages = usePages<EntryPage>(path, { ...filter, limit: "100" });
  const saveAll = async () => {
    const entries = await allOf(api, filter);
    save("audit.csv", "text/csv", csvOf(entries, exported));
    notifications.show({ message: text.allDone(entries.length, maxSaved), color: "green" });
  };
  return (
    <Loaded query={pages}>
      {({ pages: loaded }) => (
        <DataTable
          name="audit"
          rows={loaded.flatMap(({ entries }) => entries)}
          columns={account === undefined ? columns : columns.filter(({ name }) => name !== text.accountColumn)}
          keyOf={({ id }) => id}
          isSearchedByServer
          filters={
            <>
              <AccountFilter name="actor" label={text.actor} others={[text.system]} w={210} />
              {account === undefined && <AccountFilter name="account" label={text.account} w={210} />}
              <FilterField name="action" label={text.actionHint} maxLength={64} w={200} />
              <DateFilter name="since" label={text.from} />
              <DateFilter name="until" label={text.to} />
              <Act label={text.all} isReading onAct={saveAll} />
            </>
          }
          empty={text.empty}
          more={pages.hasNextPage && <More of={pages} />}
        />
      )}
    </Loaded>
  );
}

/** Newest first, at most `maxSaved`. */
async function allOf(api: Api, filter: Readonly<Record<string, string>>): Promise<readonly Entry[]> {
  const query = Object.entries({ ...filter, limit: `${pageSize}` }).filter(([, value]) => value !== "");
  const entries: Entry[] = [];
  let cursor: string | null = "";
  while (cursor !== null && entries.length < maxSaved) {
    const more: [string, string][] = cursor === "" ? [] : [["cursor", cursor]];
    const page: EntryPage = await api.call("GET", `${path}?${new URLSearchParams([...query, ...more])}`);
    entries.push(...page.entries);
    cursor = page.next_cursor;
  }
  return entries;
}

const columns: readonly Column<Entry>[] = [
  { name: text.time, value: (one) => one.at, show: (one) => <Ago at={one.at} /> },
  {
    name: text.actorColumn,
    value: (one) => one.actor,
    show: ({ actor, actor_email: email, ip }) => (
      <>
        {actor.startsWith("u:") ? <AccountLink uid={actor} name={email ?? actor} /> : actor}
        <Text size="xs" c="dimmed">
          {ip}
        </Text>
      </>
    ),
  },
  { name: text.action, value: (one) => one.action, show: ({ action }) => <Code>{action}</Code> },
  {
    name: text.subject,
    value: (one) => one.subject_name ?? one.subject,
    show: ({ subject, subject_name: name, account }) =>
      subject !== account && (
        <Text size={name === null ? "xs" : "sm"} className={name === null ? "verbatim" : ""} maw={220} title={subject}>
          {name ?? subject}
        </Text>
      ),
  },
  {
    name: text.accountColumn,
    value: (one) => one.account,
    show: ({ account, account_email: email }) => account && <AccountLink uid={account} name={email ?? account} />,
  },
  {
    name: text.note,
    value: (one) => one.note,
    show: ({ note }) =>
      note && (
        <Text size="sm" maw={320}>
          {note}
        </Text>
      ),
  },
  {
    name: text.change,
    value: ({ before, after }) => changesText(before, after),
    show: ({ before, after }) => <Changes before={before} after={after} />,
  },
];

const exported: readonly Column<Entry>[] = [
  { name: text.id, value: ({ id }) => id },
  ...columns,
  { name: text.subjectId, value: ({ subject }) => subject },
  { name: text.actorEmail, value: ({ actor_email: email }) => email },
  { name: text.accountEmail, value: ({ account_email: email }) => email },
  { name: text.ip, value: ({ ip }) => ip },
];

const maxShown = 6;

function Changes({ before, after }: { before: unknown; after: unknown }): ReactNode {
  const changes = changesOf(before, after);
  if (changes.length === 0) return null;
  return (
    <Text size="xs" maw={360} component="div" className="verbatim" title={changesText(before, after)}>
      {changes.slice(0, maxShown).map(({ name, before: old, after: next }) => (
        <div key={name}>
          <Text span inherit c="dimmed">
            {name || text.value}
          </Text>{" "}
          {old !== undefined && <s>{old}</s>} {next}
        </div>
      ))}
      {changes.length > maxShown && "…"}
    </Text>
  );
}
