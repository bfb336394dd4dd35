import { Code, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { type Deployment, gpusText, isEnded } from "../../domain/deployment.ts";
import { scheduleText } from "../../domain/schedules.ts";
import { text } from "../../text/deployments.ts";
import { Copy } from "../../ui/code.tsx";
import { Facts, Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { useOffers } from "./use-offers.ts";

const words = text.detail;

export function Configuration({ one }: { one: Deployment }): ReactNode {
  const { config, settings, extra_args: args, standard_args: standard } = one;
  const offers = useOffers();
  const { target_ttft_ms: ttft, target_queue_ms: queue, schedules = [] } = settings;
  const targets = [
    ttft && `${text.create.targetTtft}: ${ttft}`,
    queue && `${text.create.targetQueue}: ${queue}`,
  ].filter(Boolean);
  return (
    <Section title={words.facts}>
      <Facts
        of={[
          {
            label: words.id,
            value: (
              <span className="copied">
                <code>{one.deploy_id}</code> <Copy value={one.deploy_id} />
              </span>
            ),
          },
          { label: words.task, value: one.task },
          { label: words.gpus, value: gpusText(one, offers) },
          config && { label: words.batch, value: config.max_batch_size },
          config && { label: words.source, value: config.weights.repo || words.none, note: config.weights.revision },
          { label: words.args, value: args.length > 0 ? <Code>{args.join(" ")}</Code> : words.none },
          Object.keys(standard).length > 0 && {
            label: words.standardArgs,
            value: Object.entries(standard)
              .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
              .join(", "),
          },
          {
            label: words.idle,
            value: settings.min_instances > 0 ? words.never : words.seconds(settings.inactive_shutdown ?? 900),
          },
          {
            label: words.sleep,
            value: settings.sleep_after_seconds === 0 ? words.never : words.seconds(settings.sleep_after_seconds),
          },
          targets.length > 0 && { label: words.targets, value: targets.join(", ") },
          schedules.length > 0 && { label: words.schedules, value: schedules.map(scheduleText).join("; ") },
          { label: words.created, value: <Ago at={one.created_at} /> },
          { label: words.updated, value: <Ago at={one.updated_at} /> },
        ]}
      />
      {!isEnded(one.status) && one.type !== "lora" && <OneMore id={one.deploy_id} />}
    </Section>
  );
}

/** Whether scaling up would find a host. */
function OneMore({ id }: { id: string }): ReactNode {
  const { data } = useGet<Responses["GET /deploy/{deploy_id}/placement"]>(
    `/deploy/${encodeURIComponent(id)}/placement`,
    { everyMs: 30_000 },
  );
  if (!data) return null;
  return (
    <Text size="sm" mt="md" component="div">
      <span aria-hidden="true">{data.fits ? "●" : "✕"}</span> {data.fits ? words.oneMore.fits : words.oneMore.not}
      {!data.fits && (
        <ul className="reasons">
          {data.refused.map(({ host, why }) => (
            <li key={`${host}${why}`}>
              <b>{host}</b>: {why}
            </li>
          ))}
        </ul>
      )}
    </Text>
  );
}
