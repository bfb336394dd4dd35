// The attempts of a request of any account: outcome, where the time went, what it cost, and where it ran.
import { Code, Group, Progress, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import { endingOf, phasesOf } from "../../domain/request-phases.ts";
import { text as all } from "../../text/operator-requests.ts";
import { count, duration, inUtc, usdOfCents } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page, Section } from "../../ui/page.tsx";
import { AccountLink } from "./account-status.tsx";
import { Ending } from "./request-list.tsx";

const text = all.detail;

type Attempts = Responses["GET /v1/admin/requests/{request_id}"];
type Attempt = Attempts["attempts"][number];

export function AnyRequest(): ReactNode {
  const id = useParam("id");
  const found = useGet<Attempts>(`/v1/admin/requests/${encodeURIComponent(id)}`);
  return (
    <Page
      title={text.title}
      about={
        <>
          <Link to="/any-request-log">{text.back}</Link> · <code>{id}</code>
        </>
      }
    >
      <Loaded query={found}>
        {({ attempts }) =>
          attempts.map((one) => <AttemptCard key={one.attempt} one={one} isOnly={attempts.length === 1} />)
        }
      </Loaded>
    </Page>
  );
}

function AttemptCard({ one, isOnly }: { one: Attempt; isOnly: boolean }): ReactNode {
  const cached = one.cached_input_tokens > 0 && text.cached(count(one.cached_input_tokens));
  const reasoning = one.reasoning_tokens > 0 && text.reasoning(count(one.reasoning_tokens));
  return (
    <Section {...(isOnly ? {} : { title: text.attempt(one.attempt) })}>
      <Stack gap="md">
        <Group gap="sm">
          <Ending of={one.end_reason} />
          <Text size="sm">
            {endingOf(one.end_reason).means} {!one.counts && text.replaced}
          </Text>
        </Group>
        <Phases one={one} />
        <Facts
          of={[
            { label: text.model, value: one.model },
            { label: text.account, value: <AccountLink uid={one.account} /> },
            {
              label: text.deployment,
              value: one.deploy_id && (
                <Link to={`/all-deployments/${encodeURIComponent(one.deploy_id)}`}>{one.deploy_id}</Link>
              ),
            },
            { label: text.instance, value: <Code>{one.instance_id}</Code> },
            { label: text.tier, value: one.service_tier },
            { label: text.key, value: one.token_id ? <Code>{one.token_id}</Code> : text.noKey },
            { label: text.accepted, value: inUtc(one.created_at * 1000) },
            { label: text.ended, value: inUtc(one.ended_at * 1000) },
            { label: all.tokensIn, value: count(one.input_tokens), note: cached },
            { label: all.tokensOut, value: count(one.output_tokens), note: reasoning },
            { label: all.cost, value: usdOfCents(one.cost) },
          ]}
        />
      </Stack>
    </Section>
  );
}

const colors = { queue: "yellow", prefill: "blue", decode: "green" } as const;

function Phases({ one }: { one: Attempt }): ReactNode {
  const phases = phasesOf(one);
  const names = ["queue", "prefill", "decode"] as const;
  const total = Math.max(1, one.total_ms);
  return (
    <figure className="chart" style={{ margin: 0 }}>
      <Text component="figcaption" size="sm" fw={600} mb={4}>
        {text.phases}: {duration(one.total_ms)}
      </Text>
      <Progress.Root size="lg">
        {names.map((name) => (
          <Progress.Section
            key={name}
            value={(100 * phases[name]) / total}
            color={colors[name]}
            aria-label={text[name]}
          />
        ))}
      </Progress.Root>
      <Group gap="lg" mt={4}>
        {names.map((name) => (
          <Text key={name} size="xs">
            <Text span inherit c={`var(--mantine-color-${colors[name]}-text)`} aria-hidden="true">
              ■
            </Text>{" "}
            {text[name]} {duration(phases[name])}
          </Text>
        ))}
      </Group>
    </figure>
  );
}
