// One request: how it ended and what to change, where the time went, what it cost.
import { Alert, Box, Group, Progress, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconCircleCheck, IconInfoCircle, IconTool } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import type { Key } from "../../domain/key-rules.ts";
import { modelPage } from "../../domain/models.ts";
import { adviceOf, logPage, outputRate, phases, slowPhase } from "../../domain/request-log.ts";
import {
  endingOf,
  firstTokenMs,
  inputText,
  isWhole,
  type LoggedRequest,
  outputText,
  phasesOf,
} from "../../domain/request-phases.ts";
import { text as all } from "../../text/request-log.ts";
import { Command, Copy } from "../../ui/code.tsx";
import { count, duration, inUtc, usdOfCents } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page, Section, Stats } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { AccountLink } from "../operator/account-status.tsx";
import { type RejectedRequest, Rejection } from "./rejected-requests.tsx";

const text = all.detail;

export function RequestPage(): ReactNode {
  const id = useParam("id");
  const keys = useGet<readonly Key[]>("/v1/api-tokens");
  return (
    <RequestDetails
      id={id}
      path={`/v1/requests/${encodeURIComponent(id)}`}
      folder="/request-log"
      keyName={(key) => keys.data?.find((one) => one.token_id === key)?.name}
    />
  );
}

interface RequestDetailsProps {
  readonly id: string;
  /** Path in the API. */
  readonly path: string;
  /** Folder of the console's list. */
  readonly folder: string;
  readonly keyName?: (id: string) => string | undefined;
}

/** Page of a request. Operators also see whose it is and where it ran. */
export function RequestDetails({ id, path, folder, keyName = () => undefined }: RequestDetailsProps): ReactNode {
  const found = useGet<{ readonly attempts: readonly LoggedRequest[]; readonly rejection?: RejectedRequest }>(path);
  return (
    <Page
      title={text.title}
      about={
        <span className="copied">
          <code>{id}</code> <Copy value={id} />
        </span>
      }
      actions={
        <LinkButton to={folder} variant="default" size="xs">
          {text.back}
        </LinkButton>
      }
    >
      <Loaded query={found}>
        {({ attempts, rejection }) => (
          <Stack gap="lg">
            {rejection && <Rejection of={rejection} keyName={keyName(rejection.token_id)} />}
            {attempts.length > 1 && <Text size="sm">{text.attempts(attempts.length)}</Text>}
            {attempts.toReversed().map((one) => (
              <Attempt
                key={`${one.request_id} ${one.attempt}`}
                one={one}
                isOnly={attempts.length === 1}
                keyName={keyName(one.token_id)}
              />
            ))}
            <Command
              value={`stoker request get ${id}${(attempts[0] ?? rejection)?.account === undefined ? "" : " --anybody"}`}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

interface AttemptProps {
  readonly one: LoggedRequest;
  readonly isOnly: boolean;
  readonly keyName: string | undefined;
}

function Attempt({ one, isOnly, keyName }: AttemptProps): ReactNode {
  const { isFailure, label } = endingOf(one.end_reason);
  const rate = outputRate(one);
  const first = firstTokenMs(one);
  return (
    <Stack gap="md" component="section" aria-label={text.attempt(one.attempt)}>
      {!isOnly && (
        <Text fw={600}>
          {text.attempt(one.attempt)}: <code>{one.request_id}</code>
        </Text>
      )}
      <Alert
        variant="light"
        color={isFailure ? "red" : one.end_reason === "stop" ? "green" : "yellow"}
        icon={isFailure ? <IconTool /> : one.end_reason === "stop" ? <IconCircleCheck /> : <IconInfoCircle />}
        title={
          <Group gap="xs">
            <Status of={label} />
            <span>{one.http_status === 0 ? text.noStatus : text.status(one.http_status)}</span>
          </Group>
        }
      >
        {adviceOf(one)} {!one.counts && text.replaced}
      </Alert>
      <Stats
        of={[
          { label: text.total, value: duration(one.total_ms) },
          { label: text.first, value: first === null ? "–" : duration(first) },
          { label: text.rate, value: rate === undefined ? "–" : text.perSecond(count(Math.round(rate * 10) / 10)) },
          {
            label: text.tokens,
            value: count(one.input_tokens + one.output_tokens),
            note: text.tokensNote(count(one.input_tokens), count(one.output_tokens)),
          },
          { label: text.cost, value: usdOfCents(one.cost) },
        ]}
      />
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
        <Latency of={one} />
        <Section title={text.facts}>
          <AttemptFacts one={one} keyName={keyName} />
        </Section>
      </SimpleGrid>
    </Stack>
  );
}

const colors = { queue: "gray", prefill: "blue", decode: "green" } as const;

function Latency({ of: one }: { of: LoggedRequest }): ReactNode {
  const split = phasesOf(one);
  const slow = slowPhase(one);
  const isOnePiece = isWhole(one);
  const shown = isOnePiece ? phases.filter((name) => name !== "decode") : phases;
  return (
    <Section title={text.latency}>
      <Stack gap="sm">
        <Progress.Root size="xl" aria-hidden="true">
          {phases.map((name) => (
            <Progress.Section
              key={name}
              value={(100 * split[name]) / Math.max(one.total_ms, 1)}
              color={colors[name]}
              withAria={false}
            />
          ))}
        </Progress.Root>
        <dl className="phase-list">
          {shown.map((name) => (
            <div key={name}>
              <dt>
                <Box component="span" className="swatch" bg={colors[name]} />{" "}
                {isOnePiece && name === "prefill" ? text.whole : text.phases[name]}
              </dt>
              <dd className="number">{duration(split[name])}</dd>
              <Text component="dd" size="xs" c="dimmed">
                {isOnePiece && name === "prefill" ? text.wholeMeans : text.phaseMeans[name]}
              </Text>
            </div>
          ))}
        </dl>
        {slow && <Text size="sm">{text.slow[slow]}</Text>}
      </Stack>
    </Section>
  );
}

const DeploymentLink = ({ id }: { id: string }): ReactNode =>
  id === "" ? null : <Link to={`/all-deployments/${encodeURIComponent(id)}`}>{id}</Link>;

function AttemptFacts({ one, keyName }: Omit<AttemptProps, "isOnly">): ReactNode {
  const { cached_input_tokens: cached, reasoning_tokens: reasoning, user, token_id: key } = one;
  const isOwn = one.account === undefined;
  return (
    <Facts
      isWide
      of={[
        { label: all.model, value: isOwn ? <Link to={modelPage(one.model)}>{one.model}</Link> : one.model },
        { label: all.key, value: key === "" ? all.noKey : (keyName ?? <code>{key}</code>) },
        user !== null && { label: all.user, value: user },
        { label: text.accepted, value: inUtc(one.created_at * 1000), note: <Ago at={one.created_at} /> },
        { label: text.ended, value: inUtc(one.ended_at * 1000) },
        {
          label: all.columns.input,
          value: inputText(one),
          note: cached > 0 ? text.cached(count(cached)) : undefined,
        },
        {
          label: all.columns.output,
          value: outputText(one),
          note: reasoning > 0 ? text.reasoning(count(reasoning)) : undefined,
        },
        { label: text.tier, value: one.service_tier },
        { label: text.reason, value: <code>{one.end_reason}</code> },
        one.account !== undefined && {
          label: text.account,
          value: <AccountLink uid={one.account} name={one.account_email ?? undefined} />,
        },
        one.deploy_id !== undefined && { label: text.deployment, value: <DeploymentLink id={one.deploy_id} /> },
        !isOwn && { label: text.instance, value: <code>{one.instance_id}</code> },
        isOwn && {
          label: text.like,
          value: (
            <Group gap="sm">
              <Link to={logPage({ model: one.model })} inherit>
                {text.sameModel}
              </Link>
              {key !== "" && (
                <Link to={logPage({ key })} inherit>
                  {text.sameKey}
                </Link>
              )}
              {user !== null && (
                <Link to={logPage({ user })} inherit>
                  {text.sameUser}
                </Link>
              )}
            </Group>
          ),
        },
      ]}
    />
  );
}
