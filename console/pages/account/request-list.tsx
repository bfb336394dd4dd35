// List of ended requests with filters, newest first. Used for the own account, and by operators for any account.
import { ActionIcon, Box, Button, Group, Select, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { IconArrowLeft, IconArrowRight, IconRefresh, IconX } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { outcomeQuery } from "../../domain/request-log.ts";
import {
  endingOf,
  firstTokenMs,
  inputText,
  inputUnits,
  type LoggedRequest,
  outputText,
  outputUnits,
} from "../../domain/request-phases.ts";
import { text } from "../../text/request-log.ts";
import { Choice, listOf } from "../../ui/choice.tsx";
import { Below, type Column, DataTable } from "../../ui/data-table.tsx";
import { count, usdOfCents } from "../../ui/format.ts";
import { LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Status } from "../../ui/status.tsx";
import { RequestCell } from "./request-cell.tsx";

const rowsPerPage = "50";
const filterWidth = { base: "100%", sm: 165 };
const names = ["from", "outcome", "key", "model", "user"] as const;

/** Opens the page of a request by its id. */
export function FindRequest({ folder }: { folder: string }): ReactNode {
  const navigate = useNavigate();
  const find = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const id = String(new FormData(event.currentTarget).get("id")).trim();
    void navigate({ to: `${folder}/${encodeURIComponent(id)}` as never, search: {} as never });
  };
  return (
    <form onSubmit={find}>
      <TextInput
        aria-label={text.find}
        placeholder={text.find}
        title={text.findHint}
        name="id"
        maxLength={256}
        autoComplete="off"
        spellCheck={false}
        w={{ base: "100%", sm: 300 }}
        required
        rightSection={
          <ActionIcon type="submit" variant="subtle" color="gray" aria-label={text.open}>
            <IconArrowRight size={16} />
          </ActionIcon>
        }
      />
    </form>
  );
}

interface RequestListProps {
  /** API path. */
  readonly path: string;
  /** Console path; the page of a request is below it. */
  readonly folder: string;
  /** Whose requests; by default those of the signed-in account. */
  readonly account?: string;
  /** Names of keys by their id. */
  readonly keyNames: ReadonlyMap<string, string>;
  readonly models: readonly string[];
}

export function RequestList({ path, folder, account = "", keyNames, models }: RequestListProps): ReactNode {
  const [from, setFrom] = useFilter("from");
  const [outcome, setOutcome] = useFilter("outcome");
  const [key, setKey] = useFilter("key");
  const [model, setModel] = useFilter("model");
  const [user, setUser] = useFilter("user");
  const [after, setAfter] = useFilter("after");
  // Ends of the pages before this one, as far as they were opened here.
  const [before, setBefore] = useState<readonly string[]>([]);
  const navigate = useNavigate();
  const filter = { account, from, key, model, user, ...outcomeQuery(outcome), after, limit: rowsPerPage };
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== ""));
  const page = useGet<Responses["GET /v1/requests"]>(`${path}?${query}`);
  // A place in the list belongs to its filters.
  const choose = (set: (value: string) => void) => (value: string) => {
    setAfter("");
    setBefore([]);
    set(value);
  };
  const isFiltered = [outcome, key, model, user].some((value) => value !== "");
  const clear = () =>
    void navigate({
      to: ".",
      search: ((all: Record<string, string>) =>
        Object.fromEntries(Object.entries(all).filter(([name]) => ![...names, "after"].includes(name)))) as never,
      replace: true,
    });
  const keyOptions = [...keyNames].map(([value, label]) => ({ value, label }));
  if (key !== "" && !keyNames.has(key)) keyOptions.push({ value: key, label: `${text.deletedKey} ${key}` });
  return (
    <Stack gap="sm">
      <Group gap="sm" align="flex-end">
        <Choice label={text.period} options={text.periods} value={from} onChange={choose(setFrom)} />
        <Select
          size="sm"
          w={filterWidth}
          label={text.outcome}
          data={listOf(text.outcomes)}
          value={outcome}
          allowDeselect={false}
          onChange={(value) => choose(setOutcome)(value ?? "")}
        />
        <Select
          size="sm"
          w={filterWidth}
          label={text.key}
          placeholder={text.anyKey}
          data={keyOptions}
          value={key === "" ? null : key}
          clearable
          searchable
          onChange={(value) => choose(setKey)(value ?? "")}
        />
        <Select
          size="sm"
          w={filterWidth}
          label={text.model}
          placeholder={text.anyModel}
          data={[...new Set([...models, ...(model === "" ? [] : [model])])]}
          value={model === "" ? null : model}
          clearable
          searchable
          onChange={(value) => choose(setModel)(value ?? "")}
        />
        <UserFilter key={user} value={user} onChange={choose(setUser)} />
        {isFiltered && (
          <Button variant="subtle" size="sm" leftSection={<IconX size={14} />} onClick={clear}>
            {text.clear}
          </Button>
        )}
        <Tooltip label={text.refresh}>
          <ActionIcon
            variant="default"
            size="input-sm"
            aria-label={text.refresh}
            loading={page.isFetching}
            onClick={() => void page.refetch()}
          >
            <IconRefresh size={16} />
          </ActionIcon>
        </Tooltip>
      </Group>
      <Loaded query={page}>
        {({ requests, has_more: hasMore }) => (
          <>
            <DataTable
              name="requests"
              rows={requests}
              columns={columnsOf(folder, keyNames)}
              keyOf={(one) => `${one.request_id} ${one.attempt}`}
              empty={isFiltered ? text.emptyFilter : text.empty}
              emptyAction={!isFiltered && account === "" && <LinkButton to="/first-call">{text.firstCall}</LinkButton>}
            />
            <Group gap="sm" justify="space-between">
              <Text size="xs" c="dimmed">
                {text.about50}
              </Text>
              <Group gap="xs" component="nav" aria-label={text.title}>
                {after !== "" && (
                  <Button
                    size="xs"
                    variant="default"
                    leftSection={<IconArrowLeft size={14} />}
                    onClick={() => {
                      setAfter(before.at(-1) ?? "");
                      setBefore(before.slice(0, -1));
                    }}
                  >
                    {before.length > 0 ? text.newer : text.newest}
                  </Button>
                )}
                {hasMore && (
                  <Button
                    size="xs"
                    variant="default"
                    rightSection={<IconArrowRight size={14} />}
                    onClick={() => {
                      setBefore([...before, after]);
                      setAfter(requests.at(-1)?.request_id ?? "");
                    }}
                  >
                    {text.older}
                  </Button>
                )}
              </Group>
            </Group>
          </>
        )}
      </Loaded>
    </Stack>
  );
}

/** Applied with Enter or when it is left: each letter would be a request. */
function UserFilter({ value, onChange }: { value: string; onChange: (value: string) => void }): ReactNode {
  const [typed, setTyped] = useState(value);
  const apply = () => {
    if (typed.trim() !== value) onChange(typed.trim());
  };
  return (
    <TextInput
      size="sm"
      w={filterWidth}
      label={text.user}
      placeholder={text.anyUser}
      value={typed}
      maxLength={256}
      onChange={(event) => setTyped(event.currentTarget.value)}
      onBlur={apply}
      onKeyDown={(event) => event.key === "Enter" && apply()}
    />
  );
}

const columnsOf = (folder: string, keyNames: ReadonlyMap<string, string>): readonly Column<LoggedRequest>[] => [
  {
    name: text.columns.request,
    value: (one) => one.request_id,
    show: (one) => <RequestCell of={one} folder={folder} />,
  },
  { name: text.columns.time, value: (one) => one.created_at, isHidden: true },
  { name: text.columns.outcome, value: outcomeText, show: (one) => <Outcome of={one} /> },
  {
    name: text.columns.model,
    value: (one) => one.model,
    show: (one) => (
      <Box miw={{ base: 0, sm: 180 }}>
        {one.model}
        <Below>{one.token_id === "" ? text.noKey : text.keyOf(nameOfKey(one, keyNames))}</Below>
      </Box>
    ),
  },
  { name: text.columns.key, value: (one) => nameOfKey(one, keyNames), isHidden: true },
  { name: text.columns.user, value: (one) => one.user ?? "", isMinor: true },
  { name: text.columns.first, value: firstTokenMs, show: (one) => firstText(one) },
  { name: text.columns.total, value: (one) => one.total_ms, show: (one) => count(one.total_ms) },
  { name: text.columns.input, value: inputUnits, show: inputText },
  { name: text.columns.output, value: outputUnits, show: outputText },
  { name: text.columns.inputTokens, value: (one) => one.input_tokens, isHidden: true },
  { name: text.columns.outputTokens, value: (one) => one.output_tokens, isHidden: true },
  { name: text.columns.characters, value: (one) => one.characters, isHidden: true },
  { name: text.columns.audio, value: (one) => one.audio_ms, isHidden: true },
  { name: text.columns.images, value: (one) => one.images, isHidden: true },
  { name: text.columns.cost, value: (one) => one.cost / 100, show: (one) => usdOfCents(one.cost) },
];

const firstText = (one: LoggedRequest): string => {
  const first = firstTokenMs(one);
  return first === null ? "–" : count(first);
};

const nameOfKey = ({ token_id: key }: LoggedRequest, names: ReadonlyMap<string, string>): string =>
  key === "" ? text.noKey : (names.get(key) ?? key);

export const outcomeText = ({ end_reason: reason, http_status: status }: LoggedRequest): string =>
  `${endingOf(reason).label}${status === 0 ? "" : ` ${status}`}`;

export function Outcome({ of: one }: { of: LoggedRequest }): ReactNode {
  return (
    <Group gap={6} wrap="nowrap">
      <Status of={endingOf(one.end_reason).label} size="sm" />
      {one.http_status >= 300 && (
        <Text size="xs" c="dimmed">
          {one.http_status}
        </Text>
      )}
    </Group>
  );
}
