// Report of each instance. Pure.
import type { InstanceReport } from "../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import { type InstancePhase, isServing, isSleeping } from "../../proto/instance-phase.ts";
import { engineVersion } from "../engines/allowed-image.ts";
import { cacheIsolationOf, traitsOf } from "../engines/engine-traits.ts";
import type { Observed } from "./driver.ts";
import type { Facts, View } from "./facts.ts";
import type { DataPath, RouteTarget, Serving } from "./ports.ts";

/** Texts of failures come from models, engines and registries. A message of the session has at most 4 MiB. */
const maxMessageBytes = 16 * 1024;
/** All of one report. */
const maxMessagesBytes = 1024 * 1024;
const maxCodeBytes = 64;

export interface OneReport extends InstanceReport {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly phase: InstancePhase;
  readonly bytesDone: number;
  /** Memory limit; 0: none. Only for this host's metrics, not sent to the control plane. */
  readonly memoryLimitBytes: number;
}

export interface Reported {
  readonly instances: readonly OneReport[];
  readonly removed: readonly InstanceId[];
}

export function reportOf(view: View, stats: DataPath["stats"]): Reported {
  const specs = specsOf(view);
  const tombstones = new Set((view.desired?.tombstones ?? []) as InstanceId[]);
  const instances: OneReport[] = [];
  const ids = [...new Set([...specs.keys(), ...view.observed.keys()])].sort();
  const messageBytes = Math.min(maxMessageBytes, Math.floor(maxMessagesBytes / ids.length));
  for (const id of ids) {
    const facts = view.facts.get(id);
    const spec = specs.get(id);
    const seen = view.observed.get(id);
    if (!facts || (tombstones.has(id) && !seen)) continue;
    const phase = tombstones.has(id) ? (seen?.state === "exited" ? "stopped" : "draining") : phaseOf(spec, seen, facts);
    instances.push(oneReport(id, phase, spec, seen, facts, stats, messageBytes));
  }
  const isGone = (id: InstanceId) => !view.observed.has(id) && !view.facts.get(id)?.busy && !view.unsettled.has(id);
  return { instances, removed: [...tombstones].filter(isGone) };
}

/** Returns every running instance with a known batch size. `host`: determines the version of an engine. */
export function targetsOf(view: View, host: Parameters<typeof engineVersion>[1]): readonly RouteTarget[] {
  const tombstones = new Set((view.desired?.tombstones ?? []) as InstanceId[]);
  const specs = specsOf(view);
  return [...view.observed.values()].flatMap((seen) => {
    const { instanceId, deployId } = seen;
    const spec = specs.get(instanceId);
    const facts = view.facts.get(instanceId);
    // A rental has no data path: customers reach it by its own port.
    if (seen.state !== "running" || seen.ssh || !spec || !facts || spec.engine === "container") return [];
    const draining = spec.draining || seen.isLeaving === true || tombstones.has(instanceId) || isEnding(facts);
    const ready = isReady(facts, seen);
    const { origin, secret, api } = seen;
    const maxBatchSize = (spec.takesServerBatch && facts.life?.serverBatchSize) || spec.maxBatchSize;
    const dashboard = dashboardOf(spec, origin);
    const cacheIsolation = cacheIsolationOf(spec.engine, engineVersion(spec, host));
    const caches = { cacheIsolation, sharesPrefixCache: spec.sharesPrefixCache };
    // Only vLLM has this skill.
    const countsPrompts = facts.life?.formats?.includes("continuous_usage") === true;
    const countsOneChoice = traitsOf(spec.engine)?.countsOneChoice === true;
    // An engine that was emptied has lost its adapters.
    const wakes = facts.life?.wakes ?? 0;
    const life = wakes > 0 ? `${seen.identity}/${wakes}` : seen.identity;
    const engine = { origin, secret, api, identity: life, countsPrompts, countsOneChoice };
    return [{ instanceId, deployId, ...engine, maxBatchSize, ready, draining, ...dashboard, ...caches }];
  });
}

function dashboardOf({ agentInstance }: InstanceSpec__Output, origin: string): Pick<RouteTarget, "dashboard"> {
  if (!agentInstance?.dashboardPort) return {};
  const at = new URL(origin);
  at.port = String(agentInstance.dashboardPort);
  return { dashboard: at.origin };
}

/**
 * Returns instances billed by the minute: ready on GPUs of this host, or an agent instance, and not draining. A rental counts from
 * its start: the customer's first-start script already uses the GPUs and could prevent SSH from ever starting.
 */
export function servingOf(view: View): readonly Serving[] {
  const tombstones = new Set((view.desired?.tombstones ?? []) as InstanceId[]);
  return [...specsOf(view)].flatMap(([instanceId, spec]) => {
    const facts = view.facts.get(instanceId);
    const seen = view.observed.get(instanceId);
    const isPaid = spec.gpuUuids.length > 0 || spec.engine === "agent_instance";
    if (!facts || seen?.state !== "running" || !isPaid || tombstones.has(instanceId)) return [];
    const phase = phaseOf(spec, seen, facts);
    if (!isServing(phase) && !(spec.engine === "container" && phase === "loading")) return [];
    return [
      {
        instanceId,
        deployId: seen.deployId,
        identity: seen.identity,
        ...(isSleeping(phase) ? { isAsleep: true } : {}),
      },
    ];
  });
}

function phaseOf(spec: InstanceSpec__Output | undefined, seen: Observed | undefined, facts: Facts): InstancePhase {
  const isAlive = seen !== undefined && seen.state !== "exited";
  // An older generation that still serves represents the instance until its successor starts.
  const isLacking = facts.lacksMemorySinceMs !== undefined;
  const isOlder = isAlive && spec !== undefined && seen.generation < Number(spec.generation);
  if (facts.failure && !isOlder) return "failed";
  if (isAlive) {
    if (isEnding(facts) || spec?.draining || (seen.state === "running" && seen.isLeaving)) return "draining";
    if (seen.state === "starting") return "creating";
    if (isReady(facts, seen)) return "ready";
    if (facts.life?.isAsleep && facts.life.identity === seen.identity)
      return facts.busy?.kind === "wake" || isLacking ? "waking" : "asleep";
    return facts.isStoppedAsleep ? "waking" : "loading";
  }
  if (facts.isStoppedAsleep && spec) return facts.busy?.kind === "start" || isLacking ? "waking" : "asleep";
  if (!spec) return "stopped";
  if (facts.busy?.kind === "start") return "creating";
  return facts.weights.kind === "fetching" ? "downloading" : "pending";
}

const isEnding = (facts: Facts) => facts.busy?.kind === "stop" || facts.busy?.kind === "restart";
const isReady = (facts: Facts, seen: Observed) => facts.life?.identity === seen.identity && facts.life.isReady;

function oneReport(
  id: InstanceId,
  phase: InstancePhase,
  spec: InstanceSpec__Output | undefined,
  seen: Observed | undefined,
  facts: Facts,
  stats: DataPath["stats"],
  messageBytes: number,
): OneReport {
  const isAlive = seen !== undefined && seen.state !== "exited";
  // Also report the last reason while a start is retried.
  const reported = facts.failure ?? (isServing(phase) ? undefined : facts.lastCrash);
  const { inFlight, waiting, tokensPerSecond, finished = 0, turnedAway = 0, queueP95Ms, ttftP95Ms } = stats(id);
  const { weights } = facts;
  return {
    instanceId: id,
    deployId: (spec?.deployId ?? seen?.deployId ?? "") as DeploymentId,
    generation: isAlive ? seen.generation : Number(spec?.generation ?? seen?.generation ?? 0),
    phase,
    failCode: clipped(reported?.code ?? "", maxCodeBytes),
    failMessage: clipped(reported?.message ?? waitOf(phase, facts, spec?.engine === "external"), messageBytes),
    bytesDone: weights.kind === "fetching" ? weights.done : 0,
    bytesTotal: weights.kind === "fetching" ? weights.total : 0,
    inFlight,
    waiting,
    tokensPerSecond,
    finished,
    turnedAway,
    ...(queueP95Ms === undefined ? {} : { queueP95Ms }),
    ...(ttftP95Ms === undefined ? {} : { ttftP95Ms }),
    restarts: facts.restarts,
    memoryLimitBytes: Number(spec?.memoryBytes ?? 0),
    startedAtMs: seen?.state === "running" ? Math.round(seen.startedAtMs) : 0,
    identity: seen?.identity ?? "",
    contextLength: isAlive ? (facts.life?.contextLength ?? 0) : 0,
    formats: isAlive ? [...(facts.life?.formats ?? [])] : [],
    serverBatchSize: isAlive ? (facts.life?.serverBatchSize ?? 0) : 0,
    sshPort: seen?.state === "running" ? (seen.ssh?.port ?? 0) : 0,
    sshAddress: seen?.state === "running" ? (seen.ssh?.address ?? "") : "",
    gpuUuids: [...(spec?.gpuUuids ?? seen?.claimedGpus ?? [])],
  };
}

/** Returns the start of `text` that fits, in whole characters. */
function clipped(text: string, maxBytes: number): string {
  // A character of a string has at most three bytes in UTF-8.
  if (text.length * 3 <= maxBytes) return text;
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(maxBytes)).read);
}

function waitOf(phase: InstancePhase, facts: Facts, isExternal: boolean): string {
  // An instance that we started need not reply yet; an external server should.
  if (phase === "loading" && isExternal && facts.life?.trouble)
    return `the external server does not answer as it should (${facts.life.trouble})`;
  // It replies but generates no tokens: that is not part of a start.
  if (phase === "loading" && facts.life?.isFrozen) return facts.life.trouble;
  if (facts.lacksMemorySinceMs !== undefined)
    return "it waits until other models on its GPU sleep; busy ones are not interrupted";
  return phase === "creating" ? (facts.waitingFor ?? facts.life?.waitingFor ?? "") : "";
}

function specsOf(view: View): ReadonlyMap<InstanceId, InstanceSpec__Output> {
  return new Map((view.desired?.instances ?? []).map((spec) => [spec.instanceId as InstanceId, spec]));
}
