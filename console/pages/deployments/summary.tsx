// What would be created: size, fit, cost, refusals, and the button.
import { Alert, Checkbox, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { gpusOf, hoursPerMonth } from "../../domain/deployment.ts";
import type { TypeOffer } from "../../domain/gpu-offers.ts";
import { commandOf, type DeployForm } from "../../domain/new-deployment.ts";
import { text } from "../../text/deployments.ts";
import { Act } from "../../ui/act.tsx";
import { Command } from "../../ui/code.tsx";
import { bytes, usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { ErrorNotice } from "../../ui/notice.tsx";
import { Facts, Section } from "../../ui/page.tsx";
import type { Check } from "./fits.ts";
import { useOffers } from "./use-offers.ts";

const words = text.create;

interface SummaryProps {
  readonly form: DeployForm;
  readonly offer: TypeOffer | undefined;
  readonly check: Check;
  readonly hasFaults: boolean;
  readonly mayWait: boolean;
  readonly onMayWait: (may: boolean) => void;
  readonly onDeploy: () => Promise<void>;
}

export function Summary(props: SummaryProps): ReactNode {
  const { form, offer, check, hasFaults, mayWait, onMayWait, onDeploy } = props;
  const { data } = useGet<Responses["GET /v1/model-catalogue"]>("/v1/model-catalogue");
  const listed = data?.models.find(({ name, gguf }) => form.source !== "" && [name, gguf].includes(form.source));
  const offers = useOffers();
  const rate = offer?.usdPerHour;
  const why = whyNot(check, hasFaults, mayWait);
  const { fit } = check;
  return (
    <div className="sticky">
      <Section title={words.summary}>
        <Stack gap="sm">
          <Facts
            of={[
              { label: text.detail.source, value: form.source || "–", note: form.name },
              { label: text.detail.gpus, value: form.gpu ? gpusOf(form.numGpus, form.gpu, offers) : "–" },
              fit && { label: words.engineChosen, value: fit.engine },
              {
                label: words.memory,
                value: fit && fit.memory_bytes > 0 ? bytes(fit.memory_bytes) : words.memoryUnknown,
                note: listed?.weights[0] && words.memoryEstimate(listed.weights[0].gib),
              },
              { label: words.fit, value: <Verdict check={check} /> },
              { label: words.costPerInstance, value: cost(rate, 1) },
              { label: words.costMinimum, value: form.min === 0 ? text.perHour(usd(0)) : cost(rate, form.min) },
              form.max !== form.min && { label: words.costMaximum, value: cost(rate, form.max) },
            ]}
          />
          {check.state === "refused" && <ErrorNotice error={check.error} />}
          {check.error?.code === "gpu_limit_reached" && <Link to="/limits">{words.raiseLimit}</Link>}
          {check.error?.status === 402 && <Link to="/billing">{words.addFunds}</Link>}
          {fit && fit.refused.length > 0 && !fit.fits && (
            <Alert color="yellow" variant="light" title={words.whyNot}>
              <ul className="reasons">
                {fit.refused.map(({ host, why: reason }) => (
                  <li key={`${host}${reason}`}>
                    <b>{host}</b>: {reason}
                  </li>
                ))}
              </ul>
            </Alert>
          )}
          {check.state === "misfit" && (
            <Checkbox
              label={words.waitAnyway}
              description={words.waitAnywayHint}
              checked={mayWait}
              onChange={(event) => onMayWait(event.currentTarget.checked)}
            />
          )}
          {fit?.memory_bytes === 0 && (
            <Text size="xs" c="dimmed">
              {words.sizeUnknown}
            </Text>
          )}
          {check.state === "unknown" && (
            <Text size="xs" c="dimmed">
              {words.noDryRun}
            </Text>
          )}
          <div>
            <Act label={words.submit} variant="filled" size="sm" {...(why ? { why } : {})} onAct={onDeploy} />
          </div>
          {why && !hasFaults && check.state !== "checking" && (
            <Text size="xs" c="dimmed">
              {why}
            </Text>
          )}
          <div>
            <Text size="xs" c="dimmed" mb={2}>
              {words.command}
            </Text>
            <Command value={commandOf(form)} />
          </div>
        </Stack>
      </Section>
    </div>
  );
}

function whyNot(check: Check, hasFaults: boolean, mayWait: boolean): string | undefined {
  if (hasFaults || check.state === "incomplete") return words.notYet.fault;
  if (check.state === "checking") return words.notYet.checking;
  if (check.state === "refused") return words.notYet.refused;
  return check.state === "misfit" && !mayWait ? words.notYet.misfit : undefined;
}

function cost(rate: number | undefined, instances: number): string {
  if (rate === undefined) return text.noPrice;
  if (rate === 0) return text.free;
  const hour = rate * instances;
  return `${text.perHour(usd(hour))} · ${text.perMonth(usd(Math.round(hour * hoursPerMonth)))}`;
}

function Verdict({ check }: { check: Check }): ReactNode {
  const { fitOf } = words;
  switch (check.state) {
    case "fits":
      return `● ${fitOf.fits(check.fit && check.fit.memory_bytes > 0 ? bytes(check.fit.memory_bytes) : "")}`;
    case "misfit":
      return `✕ ${fitOf.not}`;
    case "refused":
      return `✕ ${fitOf.refused}`;
    case "unknown":
      return fitOf.unknown;
    case "checking":
      return fitOf.checking;
    default:
      return fitOf.chooseModel;
  }
}
