// Gateways, instances and requests in virtual time. Router, gate and autoscaler are the product's own.
import { Gate, type Waiter } from "../agent/ingress/gate.ts";
import { RecentTimes } from "../agent/ingress/recent-times.ts";
import { type Sample, scaleTo, scaleWindows } from "../control-plane/deployments/autoscale.ts";
import { minAt, type Scaling } from "../control-plane/deployments/scaling.ts";
import type { Route } from "../control-plane/fleet/routes.ts";
import { hashSeed, hashText, mixed } from "../control-plane/inference/hash.ts";
import { PrefixHints } from "../control-plane/inference/prefix-hints.ts";
import { PrefixIndex } from "../control-plane/inference/prefix-index.ts";
import {
  blockBytesAt,
  type PromptBlocks,
  type PromptScope,
  PromptScopes,
} from "../control-plane/inference/prompt-blocks.ts";
import { type Choice, Router } from "../control-plane/inference/route.ts";
import type { DeploymentId, HostId, InstanceId } from "../proto/ids.ts";
import { tierRank } from "../proto/service-tier.ts";
import { leastLoaded, type Pick, prefixHash } from "./baselines.ts";
import { Engine, type EngineRequest } from "./engine.ts";
import { KnownCaches } from "./known-caches.ts";
import type { EngineProfile } from "./profile.ts";
import type { Random } from "./random.ts";
import type { Segment } from "./segment-cache.ts";
import type { Tally } from "./tally.ts";
import type { Actor, Timeline } from "./timeline.ts";

export const policies = ["stoker", "least-loaded", "prefix-hash"] as const;
/** `known-caches`: the product's router with exact knowledge of all caches. */
export type Policy = (typeof policies)[number] | "known-caches";

export interface FleetOptions {
  readonly policy: Policy;
  readonly gateways: number;
  /** One entry for each instance. */
  readonly instances: readonly EngineProfile[];
  /** Undefined: the number of instances is fixed. */
  readonly scale?: ScaleRules;
}

export interface ScaleRules {
  readonly min: number;
  readonly max: number;
  readonly scaling?: Scaling;
  /** Known duration of a start: 0 prepares for no growth. Default: the profile's. */
  readonly startMs?: number;
  /** Unix ms at which a run begins, for schedules. */
  readonly startsAtMs?: number;
}

export interface Asked {
  readonly account: string;
  readonly segments: readonly Segment[];
  readonly outputTokens: number;
  /** Where the last response within the prompt begins and ends, in tokens; default: there is none. */
  readonly response?: { readonly start: number; readonly end: number } | undefined;
  readonly cacheKey?: string | undefined;
  /** A value of `tierRank`; default: that of the default tier. */
  readonly tier?: number | undefined;
  /** Weight of the account; default: 1. */
  readonly weight?: number | undefined;
  /** `isServed`: false if it was refused or its host was lost. */
  ended(isServed: boolean, nowMs: number): void;
}

/** As ingress.ts: the longest wait in a gate. */
const maxWaitMs = 60_000;
const maxAttempts = 3;
const bytesPerToken = 4;
const sampleMs = 5_000;
const hintDelayMs = 5;
/** Fixed, so that runs repeat. */
const scopes = new PromptScopes(Buffer.from("simulator"));
/** Estimate of the output for the gate's fair queue. */
const typicalOutput = 256;

interface Instance {
  readonly profile: EngineProfile;
  readonly engine: Engine;
  readonly gate: Gate;
  readonly slot: number;
  readonly sinceMs: number;
  /** The latest of its requests, which are linked: cheaper than a set. */
  latest: Running | undefined;
  /** Undefined in a fleet that does not scale by them. */
  readonly times: Record<TimeKind, RecentTimes> | undefined;
}

type TimeKind = "queue" | "firstToken";

/** A gateway's own view: it counts what it sent itself. */
interface Gateway {
  readonly router: Router;
  readonly known: KnownCaches | undefined;
  readonly pick: Pick;
  routes: readonly Route[];
}

export class Fleet {
  readonly timeline: Timeline;
  readonly tally: Tally;
  readonly #options: FleetOptions;
  readonly #gateways: Gateway[] = [];
  readonly #instances = new Map<number, Instance>();
  readonly #random: Random;
  /** Instances whose gates have or had waiters. */
  readonly #waited = new Set<Instance>();
  readonly #receivers: ((message: string) => void)[] = [];
  #slots = 0;
  #starting = 0;
  /** Requests so far. */
  arrived = 0;

  constructor(options: FleetOptions, timeline: Timeline, random: Random, tally: Tally) {
    this.#options = options;
    this.timeline = timeline;
    this.tally = tally;
    this.#random = random;
    for (let i = 0; i < options.gateways; i++) {
      const known =
        options.policy === "known-caches"
          ? new KnownCaches((slot, segments) => this.#instances.get(slot)?.engine.cachedOf(segments) ?? 0)
          : undefined;
      const router = this.#routerOf(i, known ?? new PrefixIndex());
      const pick: Pick =
        options.policy === "stoker" || known !== undefined
          ? (ready, tried, prompt) => router.pick(ready, tried, prompt)
          : options.policy === "least-loaded"
            ? leastLoaded
            : prefixHash;
      this.#gateways.push({ router, known, pick, routes: [] });
    }
    for (const profile of options.instances) this.#start(profile);
    if (options.scale) new Scaler(this, options.scale, options.instances[0] as EngineProfile);
    new GateClock(this);
  }

  /** Gateways send each other hints, which arrive later. */
  #routerOf(gateway: number, index: PrefixIndex): Router {
    const { timeline } = this;
    const clock = () => timeline.nowMs;
    if (this.#options.gateways === 1) return new Router(this.#random.next, index, undefined, scopes, clock);
    const later = (act: () => void, ms: number) => timeline.set(timeline.add({ act }), timeline.nowMs + ms);
    const hints = new PrefixHints({
      index,
      slotOf: (instance) => Number(instance.slice(instance.indexOf("-") + 1)),
      wait: later,
      link: {
        publish: (message) =>
          later(() => {
            for (const [other, receive] of this.#receivers.entries()) if (other !== gateway) receive(message);
          }, hintDelayMs),
        on: (handler) => {
          this.#receivers[gateway] = handler;
        },
      },
    });
    return new Router(this.#random.next, index, hints, scopes, clock);
  }

  get size(): number {
    return this.#instances.size;
  }
  get starting(): number {
    return this.#starting;
  }

  /** Requests in gates and engines. */
  get load(): number {
    let load = 0;
    for (const { gate } of this.#instances.values()) load += gate.inFlight + gate.waiting;
    return load;
  }

  /** Mean p95 of the instances, as their agents report it; undefined: no requests. */
  timesOf(kind: TimeKind): number | undefined {
    const known = [...this.#instances.values()].flatMap(({ times }) => times?.[kind].p95() ?? []);
    return known.length === 0 ? undefined : known.reduce((sum, ms) => sum + ms, 0) / known.length;
  }

  ask(asked: Asked): void {
    this.arrived += 1;
    const gateway = this.#gateways[Math.floor(this.#random.next() * this.#gateways.length)] as Gateway;
    new Running(this, gateway, asked).send();
  }

  choose(gateway: Gateway, asked: Asked, promptTokens: number, tried: readonly Route[]): Choice | undefined {
    const scope = scopes.of(asked.account, undefined);
    const { blocks } = gateway.router;
    blocks.clear();
    const first = (asked.segments[0] as Segment).id;
    gateway.known?.ask(asked.segments, promptTokens);
    if (this.#options.policy === "stoker" || gateway.known !== undefined) {
      if (asked.cacheKey !== undefined) blocks.fillKey(asked.cacheKey, scope);
      else fillBlocks(blocks, asked, promptTokens, scope);
    }
    const beginning = mixed(scope.place ^ (asked.cacheKey === undefined ? first : hashText(asked.cacheKey, hashSeed)));
    return gateway.pick(gateway.routes, tried, { blocks, tokens: promptTokens, sequences: 1, scope }, beginning);
  }

  instanceOf(route: Route): Instance | undefined {
    return this.#instances.get(route.slot);
  }

  /** The host of one instance fails: running requests break, and gateways stop choosing it. */
  lose(): void {
    const slot = [...this.#instances.keys()][0];
    if (slot !== undefined) this.#remove(slot);
  }

  add(profile: EngineProfile): void {
    this.#starting += 1;
    const id: number = this.timeline.add({
      act: () => {
        this.#starting -= 1;
        this.#start(profile);
      },
    });
    this.timeline.set(id, this.timeline.nowMs + profile.coldStartMs);
  }

  /** Removes the least busy instance once it is idle; others keep it from being chosen. */
  shrink(): void {
    for (const [slot, { gate }] of this.#instances) {
      if (gate.inFlight + gate.waiting > 0) continue;
      this.#remove(slot);
      return;
    }
  }

  /** Requests wait in the gate of this instance. */
  waits(instance: Instance): void {
    this.#waited.add(instance);
  }

  expireWaiters(): void {
    if (this.#waited.size === 0) return;
    for (const instance of [...this.#waited].sort((one, other) => one.slot - other.slot)) {
      if (instance.gate.waiting > 0) instance.gate.expire();
      else this.#waited.delete(instance);
    }
  }

  /** Accounts for the time of running instances. */
  close(): void {
    for (const slot of [...this.#instances.keys()]) this.#count(this.#instances.get(slot) as Instance);
  }

  #start(profile: EngineProfile): void {
    const slot = this.#slots++;
    const { timeline } = this;
    const clock = () => timeline.nowMs;
    this.#instances.set(slot, {
      profile,
      engine: new Engine(profile, timeline),
      gate: new Gate({ permits: profile.maxBatchSize, clock, maxWaitMs }),
      slot,
      sinceMs: timeline.nowMs,
      latest: undefined,
      times: this.#options.scale && { queue: new RecentTimes(clock), firstToken: new RecentTimes(clock) },
    });
    for (const gateway of this.#gateways) gateway.routes = [...gateway.routes, routeTo(slot, profile)];
  }

  #remove(slot: number): void {
    const instance = this.#instances.get(slot) as Instance;
    this.#count(instance);
    this.#instances.delete(slot);
    this.#waited.delete(instance);
    for (const gateway of this.#gateways) gateway.routes = gateway.routes.filter((route) => route.slot !== slot);
    instance.engine.stop();
    const requests: Running[] = [];
    for (let request = instance.latest; request; request = request.before) requests.push(request);
    for (const request of requests.toReversed()) request.lost(this.timeline.nowMs);
  }

  #count({ profile, sinceMs, engine }: Instance): void {
    this.tally.gpuMs += profile.gpus * (this.timeline.nowMs - sinceMs);
    this.tally.busyGpuMs += profile.gpus * engine.busyMs;
  }
}

/** One request on its way: what relay.ts does, without bytes. */
class Running implements Waiter, EngineRequest {
  readonly permits = 1;
  readonly promptTokens: number;
  cachedTokens = 0;
  left = 0;
  taken = 0;
  turn?: Waiter["turn"];
  readonly #fleet: Fleet;
  readonly #gateway: Gateway;
  readonly #asked: Asked;
  readonly #sinceMs: number;
  #tried: readonly Route[] = noRoutes;
  #choice: Choice | undefined;
  /** The chosen instance. */
  #instance: Instance | undefined;
  /** Neighbours among the instance's requests, in the order in which they were sent. */
  before: Running | undefined;
  after: Running | undefined;
  #firstMs = 0;
  #isEntering = false;

  constructor(fleet: Fleet, gateway: Gateway, asked: Asked) {
    this.#fleet = fleet;
    this.#gateway = gateway;
    this.#asked = asked;
    this.#sinceMs = fleet.timeline.nowMs;
    let tokens = 0;
    for (const segment of asked.segments) tokens += segment.tokens;
    this.promptTokens = tokens;
  }

  get account(): string {
    return this.#asked.account;
  }
  get tier(): number {
    return this.#asked.tier ?? tierRank.default;
  }
  get weight(): number {
    return this.#asked.weight ?? 1;
  }
  get segments(): readonly Segment[] {
    return this.#asked.segments;
  }
  get outputTokens(): number {
    return this.#asked.outputTokens;
  }
  get cost(): number {
    return this.promptTokens + typicalOutput;
  }

  send(): void {
    while (this.#tried.length < maxAttempts) {
      const choice = this.#fleet.choose(this.#gateway, this.#asked, this.promptTokens, this.#tried);
      const instance = choice && this.#fleet.instanceOf(choice.route);
      if (!choice || !instance) break;
      this.#tried = [...this.#tried, choice.route];
      this.#choice = choice;
      this.#gateway.router.sent(choice);
      this.#join(instance);
      this.#isEntering = true;
      instance.gate.enter(this);
      this.#isEntering = false;
      if (!this.#choice) continue;
      if (instance.gate.waiting > 0) this.#fleet.waits(instance);
      return;
    }
    this.#fleet.tally.refused += 1;
    this.#asked.ended(false, this.#fleet.timeline.nowMs);
  }

  admitted(): void {
    const instance = this.#instance as Instance;
    instance.times?.queue.add(this.#fleet.timeline.nowMs - this.#sinceMs);
    instance.engine.enter(this);
  }

  refused(): void {
    this.#end();
    // Refused at once: the loop in `send` tries another instance.
    if (!this.#isEntering) this.send();
  }

  sawFirstToken(nowMs: number): void {
    this.#firstMs = nowMs;
    this.#instance?.times?.firstToken.add(nowMs - this.#sinceMs);
    this.#gateway.router.sawFirstByte(this.#choice as Choice);
  }

  finished(nowMs: number): void {
    const choice = this.#choice as Choice;
    this.#instance?.gate.release(this, this.promptTokens + this.outputTokens);
    this.#end();
    this.#gateway.router.learn(choice, this.cachedTokens);
    const { account, outputTokens } = this.#asked;
    this.#fleet.tally.served({
      account,
      ttftMs: this.#firstMs - this.#sinceMs,
      tokenMs: outputTokens > 1 ? (nowMs - this.#firstMs) / (outputTokens - 1) : 0,
      promptTokens: this.promptTokens,
      cachedTokens: this.cachedTokens,
      outputTokens,
      endMs: nowMs,
    });
    this.#asked.ended(true, nowMs);
  }

  lost(nowMs: number): void {
    this.#end();
    if (this.#firstMs === 0) {
      this.send();
      return;
    }
    this.#fleet.tally.broken += 1;
    this.#asked.ended(false, nowMs);
  }

  #join(instance: Instance): void {
    this.#instance = instance;
    this.before = instance.latest;
    this.after = undefined;
    if (instance.latest) instance.latest.after = this;
    instance.latest = this;
  }

  #end(): void {
    const instance = this.#instance;
    if (instance) {
      if (this.after) this.after.before = this.before;
      else instance.latest = this.before;
      if (this.before) this.before.after = this.after;
      this.#instance = undefined;
    }
    if (this.#choice) this.#gateway.router.ended(this.#choice);
    this.#choice = undefined;
  }
}

/** Scales as controller and scaler do, from samples of all instances. */
class Scaler implements Actor {
  readonly #fleet: Fleet;
  readonly #rules: ScaleRules;
  readonly #profile: EngineProfile;
  readonly #id: number;
  readonly #samples: Sample[] = [];
  #target: number;

  constructor(fleet: Fleet, rules: ScaleRules, profile: EngineProfile) {
    this.#fleet = fleet;
    this.#rules = rules;
    this.#profile = profile;
    this.#target = fleet.size;
    this.#id = fleet.timeline.add(this);
    fleet.timeline.set(this.#id, sampleMs);
  }

  act(nowMs: number): void {
    const fleet = this.#fleet;
    const samples = this.#samples;
    samples.push({
      atMs: nowMs,
      load: fleet.load,
      isStarting: fleet.starting > 0,
      arrived: fleet.arrived,
      queueP95Ms: fleet.timesOf("queue"),
      ttftP95Ms: fleet.timesOf("firstToken"),
    });
    fleet.tally.samples.push({ atMs: nowMs, load: fleet.load, instances: fleet.size });
    if (samples.length > 4 * (scaleWindows.downMs / sampleMs)) samples.splice(0, samples.length / 2);
    const { min: minInstances, max, scaling = {}, startsAtMs = 0 } = this.#rules;
    const { maxBatchSize, coldStartMs } = this.#profile;
    const { startMs = coldStartMs } = this.#rules;
    const min = minAt({ minInstances, maxInstances: max, scaling, startMs }, startsAtMs + nowMs);
    this.#target = scaleTo({
      min,
      max,
      target: this.#target,
      maxBatchSize,
      samples,
      windows: scaleWindows,
      idleForMs: 0,
      targets: { ttftMs: scaling.targetTtftMs, queueMs: scaling.targetQueueMs },
      startMs,
    });
    for (let have = fleet.size + fleet.starting; have < this.#target; have++) fleet.add(this.#profile);
    if (fleet.size > this.#target) fleet.shrink();
    fleet.timeline.set(this.#id, nowMs + sampleMs);
  }
}

/** Gates refuse waiters that waited too long only when they are asked to. */
class GateClock implements Actor {
  readonly #fleet: Fleet;
  readonly #id: number;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    this.#id = fleet.timeline.add(this);
    fleet.timeline.set(this.#id, 1_000);
  }

  act(nowMs: number): void {
    this.#fleet.expireWaiters();
    this.#fleet.timeline.set(this.#id, nowMs + 1_000);
  }
}

const noKey = Buffer.alloc(0);
const noRoutes: readonly Route[] = [];

const routeTo = (slot: number, { maxBatchSize }: EngineProfile): Route => ({
  instanceId: `instance-${slot}` as InstanceId,
  deployId: "deployment" as DeploymentId,
  hostId: `host-${slot}` as HostId,
  origin: "",
  ticketKey: noKey,
  maxBatchSize,
  slot,
  inFlight: 0,
  queuedTokens: 0,
});

/** As PromptBlocks.fill does for a body of these segments. */
function fillBlocks(
  blocks: PromptBlocks,
  { segments, response }: { readonly segments: Asked["segments"]; readonly response?: Asked["response"] },
  promptTokens: number,
  scope: PromptScope,
): void {
  const length = promptTokens * bytesPerToken;
  blocks.bytes = length;
  blocks.responseStart = bytesPerToken * (response?.start ?? 0);
  blocks.responseEnd = bytesPerToken * (response?.end ?? 0);
  let { place } = scope;
  let at = 0;
  let segmentStart = 0;
  for (let offset = 0; ; ) {
    const end = offset + blockBytesAt(offset);
    if (end > length || blocks.count === blocks.places.length) return;
    for (;;) {
      const segment = segments[at] as Segment;
      const segmentEnd = segmentStart + segment.tokens * bytesPerToken;
      place = mixed(place ^ Math.imul(segment.id, 0x9e3779b1));
      if (segmentEnd >= end) break;
      // Where the next segment begins within the block.
      place = mixed(place + segmentEnd - offset);
      segmentStart = segmentEnd;
      at += 1;
    }
    blocks.add(place, mixed(place ^ scope.tag), end / length);
    offset = end;
  }
}
