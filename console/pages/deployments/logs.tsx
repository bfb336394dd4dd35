// Log of a deployment or agent: by level, search and instance, following its end.
import {
  ActionIcon,
  Box,
  Button,
  Code,
  Group,
  Select,
  Switch,
  Text,
  TextInput,
  Tooltip,
  UnstyledButton,
} from "@mantine/core";
import { IconArrowDown, IconDownload, IconSearch } from "@tabler/icons-react";
import { type ReactNode, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import {
  fieldsText,
  type LogLevel,
  type LogLine,
  logLevels,
  matchingLines,
  readLines,
} from "../../domain/log-lines.ts";
import { text } from "../../text/deployments.ts";
import { listOf } from "../../ui/choice.tsx";
import { save } from "../../ui/data-table.tsx";
import { inUtc } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Empty } from "../../ui/page.tsx";

const words = text.logs;
const maxLines = 1000;
const periodSeconds: Readonly<Record<string, number>> = { "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800 };
const minuteMs = 60_000;

interface LogsProps {
  readonly id: string;
  /** Headers of the request, for an operator who reads the log of a customer. */
  readonly headers?: Readonly<Record<string, string>>;
}

export function Logs({ id, headers }: LogsProps): ReactNode {
  const [level, setLevel] = useFilter("level");
  const [instance, setInstance] = useFilter("instance");
  const [period, setPeriod] = useFilter("logs");
  const [search, setSearch] = useState("");
  const [isFollowing, setFollowing] = useState(true);
  const wanted = useDeferredValue(search);
  const seconds = periodSeconds[period];
  // By the minute, so that the address stays the same between two polls.
  const from = seconds === undefined ? undefined : Math.floor(Date.now() / minuteMs) * 60 - seconds;
  const query = new URLSearchParams({
    deploy_id: id,
    limit: `${maxLines}`,
    ...(from === undefined ? {} : { from: `${from}`, to: `${from + (seconds ?? 0) + 60}` }),
  });
  const log = useGet<Responses["GET /v1/deployment_logs/query"]>(`/v1/deployment_logs/query?${query}`, {
    everyMs: isFollowing ? 3000 : undefined,
    ...(headers ? { headers } : {}),
  });
  const entries = log.data?.entries;
  const all = useMemo(() => (entries ? readLines(entries as Entries) : []), [entries]);
  const instances = useMemo(() => [...new Set(all.map((line) => line.instance))], [all]);
  const least = logLevels.find((name) => name === level) ?? "debug";
  const shown = useMemo(
    () => matchingLines(instance ? all.filter((line) => line.instance === instance) : all, least, wanted),
    [all, instance, least, wanted],
  );
  return (
    <>
      <Group gap="sm" mb="sm" align="flex-end">
        <TextInput
          type="search"
          aria-label={words.search}
          placeholder={words.search}
          leftSection={<IconSearch size={16} />}
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
          w={{ base: "100%", sm: 240 }}
        />
        <Select
          aria-label={words.level}
          data={logLevels.map((name) => ({ value: name, label: words.levels[name] }))}
          value={least}
          allowDeselect={false}
          onChange={(value) => setLevel(value === "debug" ? "" : (value ?? ""))}
          w={190}
        />
        <Select
          aria-label={words.period}
          data={listOf(words.periods)}
          value={period}
          allowDeselect={false}
          onChange={(value) => setPeriod(value ?? "")}
          w={150}
        />
        {(instances.length > 1 || instance !== "") && (
          <Select
            aria-label={words.instance}
            data={[{ value: "", label: words.allInstances }, ...[...new Set([instance, ...instances])].filter(Boolean)]}
            value={instance}
            allowDeselect={false}
            onChange={(value) => setInstance(value ?? "")}
            w={200}
          />
        )}
        <Switch
          label={words.follow}
          checked={isFollowing}
          onChange={(event) => setFollowing(event.currentTarget.checked)}
          pb={8}
        />
        <Button
          variant="default"
          size="xs"
          mb={3}
          leftSection={<IconDownload size={14} />}
          disabled={shown.length === 0}
          onClick={() => save(`${id}.log`, "text/plain", `${shown.map(({ raw }) => raw).join("\n")}\n`)}
        >
          {words.download}
        </Button>
      </Group>
      <Loaded query={log}>
        {() =>
          all.length === 0 ? (
            <Empty>{words.empty}</Empty>
          ) : (
            <>
              <Lines lines={shown} isFollowing={isFollowing} hasInstances={instances.length > 1} />
              <Text size="xs" c="dimmed" mt={4} role="status">
                {shown.length === 0 ? words.noMatch : words.shown(shown.length, all.length, maxLines)}
              </Text>
            </>
          )
        }
      </Loaded>
    </>
  );
}

type Entries = Readonly<Record<string, readonly (readonly string[])[]>>;

interface LinesProps {
  readonly lines: readonly LogLine[];
  readonly isFollowing: boolean;
  readonly hasInstances: boolean;
}

function Lines({ lines, isFollowing, hasInstances }: LinesProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const [open, setOpen] = useState<string | undefined>(undefined);
  const last = lines.at(-1)?.key;
  const hasDates = dayOf(lines[0]) !== dayOf(lines.at(-1));
  const toEnd = () => box.current?.scrollTo({ top: box.current.scrollHeight });
  // Someone who has scrolled up is reading: only the end follows.
  // biome-ignore lint/correctness/useExhaustiveDependencies: at each new line.
  useEffect(() => {
    if (isFollowing && isAtEnd) toEnd();
  }, [last, isFollowing]);
  return (
    <Box pos="relative">
      <div
        ref={box}
        className="log-lines"
        role="log"
        aria-label={words.label}
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled area must be reachable by keyboard.
        tabIndex={0}
        onScroll={({ currentTarget: at }) => setAtEnd(at.scrollHeight - at.scrollTop - at.clientHeight < 40)}
      >
        {lines.map((line) => (
          <Line
            key={line.key}
            line={line}
            hasInstance={hasInstances}
            hasDate={hasDates}
            isOpen={open === line.key}
            onToggle={() => setOpen(open === line.key ? undefined : line.key)}
          />
        ))}
      </div>
      {!isAtEnd && (
        <Tooltip label={words.toEnd}>
          <ActionIcon pos="absolute" bottom={12} right={20} radius="xl" aria-label={words.toEnd} onClick={toEnd}>
            <IconArrowDown size={16} />
          </ActionIcon>
        </Tooltip>
      )}
    </Box>
  );
}

const dayOf = (line: LogLine | undefined): string => (line ? new Date(line.atMs).toISOString().slice(0, 10) : "");

/** In UTC. */
const timeOf = (atMs: number, hasDate: boolean): string =>
  new Date(atMs)
    .toISOString()
    .slice(hasDate ? 5 : 11, 23)
    .replace("T", " ");

const colors: Readonly<Record<LogLevel, string>> = { debug: "gray", info: "blue", warn: "yellow", error: "red" };

interface LineProps {
  readonly line: LogLine;
  readonly hasInstance: boolean;
  readonly hasDate: boolean;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function Line({ line, hasInstance, hasDate, isOpen, onToggle }: LineProps): ReactNode {
  const { atMs, level, message, fields, instance, raw } = line;
  const more = fieldsText(fields);
  return (
    <div className="log-line" data-level={level}>
      <UnstyledButton className="log-row" onClick={onToggle} aria-expanded={isOpen} title={inUtc(atMs)}>
        <time dateTime={new Date(atMs).toISOString()}>{timeOf(atMs, hasDate)}</time>{" "}
        <Text span inherit fw={600} c={`var(--mantine-color-${colors[level]}-text)`} className="log-level">
          {level}
        </Text>{" "}
        {hasInstance && <span className="log-instance">{instance.slice(0, 6)} </span>}
        <span>{message}</span> {more && <span className="log-fields">{more}</span>}
      </UnstyledButton>
      {isOpen && (
        <Code block my={4}>
          {inUtc(atMs)} {instance}
          {"\n"}
          {pretty(raw)}
        </Code>
      )}
    </div>
  );
}

function pretty(raw: string): string {
  try {
    return JSON.stringify(JSON.parse(raw), null, 2);
  } catch {
    return raw;
  }
}
