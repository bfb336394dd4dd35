import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { currentRate, type Deployment, instanceRate, instancesText, type Offer } from "../../domain/deployment.ts";
import { text } from "../../text/deployments.ts";
import { count, usd, usdOfCents } from "../../ui/format.ts";
import { type Fact, Stats } from "../../ui/page.tsx";

type Use = Responses["GET /deploy/{deploy_id}/stats"];
type UseByTask = Responses["GET /deploy/{deploy_id}/stats2"];

const words = text.detail.stats;

/** Instances, money and use in one row. */
export function Figures({ one, offers }: { one: Deployment; offers: readonly Offer[] }): ReactNode {
  const path = `/deploy/${encodeURIComponent(one.deploy_id)}`;
  const everyMs = 30_000;
  const month = useGet<Use>(`${path}/stats?from=${monthStart()}`, { everyMs }).data;
  const created = Math.floor(Date.parse(one.created_at) / 1000);
  const whole = useGet<Use>(`${path}/stats?from=${created}`, { everyMs }).data;
  const byTask = useGet<UseByTask>(`${path}/stats2?from=${monthStart()}`, { everyMs }).data;
  const each = instanceRate(one, offers);
  const now = currentRate(one, offers);
  const { min_instances: min, max_instances: max } = one.settings;
  return (
    <Stats
      of={[
        { label: words.instances, value: instancesText(one), note: words.instancesNote(min, max) },
        {
          label: words.cost,
          value: now === undefined ? text.noPrice : text.perHour(usd(now)),
          note: each === undefined ? undefined : words.costNote(one.instances.running, text.perHour(usd(each))),
        },
        {
          label: words.spent,
          value: whole ? shortUsd(whole.total_amount) : "…",
          note: month && words.spentNote(usdOfCents(month.total_amount)),
        },
        {
          label: words.requests,
          value: month ? count(month.requests) : "…",
          note: month && words.errors(month.errors),
        },
        {
          label: words.tokens,
          value: month ? count(month.total_tokens) : "…",
          note: month && words.tokensNote(count(month.input_tokens), count(month.output_tokens)),
        },
        latency(byTask),
      ]}
    />
  );
}

/** A fraction of a cent would need more digits than a card has; the note has them. */
const shortUsd = (cents: number): string => (cents > 0 && cents < 1 ? words.belowCent : usdOfCents(cents));

function latency(use: UseByTask | undefined): Fact {
  const ms = (value: number): string => text.metrics.ms(count(Math.round(value)));
  if (use?.llm) {
    const { avg95_ttft_ms: p95, avg_ttft_ms: average, requests } = use.llm;
    if (requests === 0) return { label: words.ttft, value: "–" };
    return { label: words.ttft, value: ms(p95), note: words.ttftNote(ms(average)) };
  }
  const other = use?.embeddings ?? use?.time;
  if (!other) return { label: words.ttft, value: use ? "–" : "…" };
  return { label: words.time, value: ms(other.avg95_time_ms), note: words.ttftNote(ms(other.avg_time_ms)) };
}

/** Start of the UTC month, in Unix seconds. */
function monthStart(): number {
  const now = new Date();
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 1000;
}
