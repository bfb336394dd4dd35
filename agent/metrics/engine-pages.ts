// Caches the metrics pages of the engines on this host and serves them under their own names with deploy_id, instance_id and
// node, and again under the names that are the same for every engine. A page is removed with its instance; an engine that
// stops responding keeps its last page and does not affect the others.

import { authorizationFor, type EngineAddress } from "../../proto/bearer-secret.ts";
import { boundedText } from "../../proto/bounded-text.ts";
import { type NormalisedName, normalisedNames } from "./engine-names.ts";
import { type Family, labelText, parseMetrics, renderFamilies, type Sample } from "./metrics-text.ts";

interface EngineTarget extends EngineAddress {
  readonly instanceId: string;
  readonly deployId: string;
  readonly ready: boolean;
}

export type EnginePages = ReturnType<typeof createEnginePages>;

interface Known {
  readonly families: readonly Family[];
  readonly atMs: number;
}

const limitMs = 2_000;
const pageLimitBytes = 4 * 1024 * 1024;
/** With the names that are the same for every engine and its age: 600 series. */
const maxSamplesPerEngine = 600 - normalisedNames.length - 1;
const maxLoraSets = 32;
const dropped = /^(python_|process_|http_|nodejs_)/;

export function createEnginePages(node: string, clock: () => number) {
  let targets: readonly EngineTarget[] = [];
  const known = new Map<string, Known>();
  let failures = 0;

  async function ask(target: EngineTarget, signal: AbortSignal): Promise<void> {
    try {
      const base = target.origin.replace(/\/+$/, "").replace(/\/v1$/, "");
      const bound = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
      const answer = await fetch(`${base}/metrics`, {
        headers: authorizationFor(target),
        signal: bound,
        redirect: "error",
      });
      if (!answer.ok) {
        await answer.body?.cancel();
        // A server without a metrics page is no failure.
        if (answer.status !== 404) failures += 1;
        return;
      }
      const page = await boundedText(answer.body, pageLimitBytes);
      const isStill = targets.some(({ instanceId }) => instanceId === target.instanceId);
      if (isStill) known.set(target.instanceId, { families: kept(parseMetrics(page)), atMs: clock() });
    } catch {
      if (!signal.aborted) failures += 1;
    }
  }

  return {
    setTargets(next: readonly EngineTarget[]) {
      targets = next;
      const ids = new Set(next.map(({ instanceId }) => instanceId));
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    },
    /** Asks every ready engine, each no longer than two seconds. */
    async look(signal: AbortSignal) {
      await Promise.all(targets.filter(({ ready }) => ready).map((target) => ask(target, signal)));
    },
    figures(instanceId: string) {
      const families = known.get(instanceId)?.families ?? [];
      const [running, waiting, kvCacheRatio] = ["requests_running", "requests_waiting", "kv_cache_usage_ratio"].map(
        (name) =>
          figureOf(
            families,
            normalisedNames.find((one) => one.name === `stoker_engine_${name}`),
          ),
      );
      return {
        ...(running === undefined ? {} : { running }),
        ...(waiting === undefined ? {} : { waiting }),
        ...(kvCacheRatio === undefined ? {} : { kvCacheRatio }),
      };
    },
    page() {
      const merged = new Map<string, { name: string; help: string; type: string; samples: Sample[] }>();
      const add = (family: Omit<Family, "samples">, samples: readonly Sample[]) => {
        const { name, help, type } = family;
        const into = merged.get(name) ?? { name, help, type, samples: [] };
        into.samples.push(...samples);
        merged.set(name, into);
      };
      for (const { instanceId, deployId } of targets) {
        const last = known.get(instanceId);
        if (!last) continue;
        const own = labelText({ deploy_id: deployId, instance_id: instanceId, node });
        for (const family of last.families)
          add(
            family,
            family.samples.map((sample) => withLabels(sample, own)),
          );
        for (const normal of normalisedNames) {
          const value = figureOf(last.families, normal);
          if (value !== undefined) add(normal, [{ name: normal.name, labels: own, value: String(value) }]);
        }
        const age = {
          name: "stoker_engine_sample_age_seconds",
          help: "Since the engine's page was read",
          type: "gauge",
        };
        add(age, [{ name: age.name, labels: own, value: ((clock() - last.atMs) / 1000).toFixed(3) }]);
      }
      return renderFamilies([...merged.values()]);
    },
    get failures() {
      return failures;
    },
  };
}

/** Keeps whole families up to the limit, those that every engine has first: a partial histogram would be wrong. */
function kept(families: readonly Family[]): readonly Family[] {
  let left = maxSamplesPerEngine;
  const ordered = [...families.filter(isNormalised), ...families.filter((family) => !isNormalised(family))];
  return ordered.flatMap((family) => {
    if (dropped.test(family.name)) return [];
    const samples = family.name === "vllm:lora_requests_info" ? family.samples.slice(0, maxLoraSets) : family.samples;
    if (samples.length > left) return [];
    left -= samples.length;
    return [{ ...family, samples }];
  });
}

const rawNames = new Set(normalisedNames.flatMap(({ from }) => from.map(({ raw }) => raw)));
const isNormalised = ({ samples }: Family) => samples.some(({ name }) => rawNames.has(name));

/** The sum over its series: an engine with several inner engines is one instance. */
function figureOf(families: readonly Family[], normal: NormalisedName | undefined): number | undefined {
  for (const { raw, label } of normal?.from ?? []) {
    const wanted = label && labelText({ [label[0]]: label[1] });
    const values = families
      .flatMap(({ samples }) => samples)
      .filter((sample) => sample.name === raw && (wanted === undefined || sample.labels.includes(wanted)))
      .map(({ value }) => Number(value.split(/\s/, 1)[0]))
      .filter(Number.isFinite);
    if (values.length > 0) return values.reduce((sum, value) => sum + value, 0);
  }
  return undefined;
}

/** Labels of ours win over the engine's own of the same name. */
function withLabels(sample: Sample, own: string): Sample {
  const others = sample.labels
    .replace(/(?:^|,)\s*(?:deploy_id|instance_id|node)="(?:[^"\\]|\\.)*"/g, "")
    .replace(/^,|,$/g, "");
  return { ...sample, labels: others === "" ? own : `${others},${own}` };
}
