// Who sends what: clients that wait for each response, and clients that arrive whatever happens.
import type { Asked, Fleet } from "./fleet.ts";
import { Random } from "./random.ts";
import type { Segment } from "./segment-cache.ts";
import type { Actor } from "./timeline.ts";

export interface World {
  readonly fleet: Fleet;
  readonly random: Random;
  /** Numbers of segments that nobody else uses. */
  readonly newSegment: () => number;
  readonly endMs: number;
}

/** A conversation grows with each turn: its prompt repeats everything before. */
export interface ConversationShape {
  readonly account: string;
  /** System prompts to choose from, and their tokens. */
  readonly systems: number;
  readonly systemTokens: number;
  /** Tokens that a turn adds: of the user or a tool, and of the model. */
  readonly turnTokens: number;
  readonly outputTokens: number;
  /** Mean number of turns. */
  readonly turns: number;
  /** Mean time between a response and the next turn. */
  readonly thinkMs: number;
  /** Sends a key for each conversation, as `prompt_cache_key`. */
  readonly hasKey?: boolean;
  /** A value of `tierRank`. */
  readonly tier?: number;
  /** Weight of the account; default: 1. */
  readonly weight?: number;
}

const retryMs = 1_000;

/** One conversation at a time, and one request of it, which it is itself. `again`: starts another when it ends. */
class Conversation implements Actor, Asked {
  readonly account: string;
  readonly tier: number | undefined;
  readonly weight: number | undefined;
  segments: readonly Segment[] = [];
  /** Tokens of the current turn, also when it is sent again. */
  outputTokens = 0;
  #added = 0;
  readonly #world: World;
  readonly #shape: ConversationShape;
  readonly #id: number;
  readonly #again: boolean;
  /** Its own generator, so that a conversation is the same under each policy. */
  readonly #random: Random;
  /** The last of `segments`. */
  #own = { id: 0, tokens: 0 };
  readonly #response = { start: 0, end: 0 };
  #history = 0;
  #turnsLeft = 0;

  constructor(world: World, shape: ConversationShape, atMs: number, again: boolean) {
    this.account = shape.account;
    this.tier = shape.tier;
    this.weight = shape.weight;
    this.#world = world;
    this.#shape = shape;
    this.#again = again;
    this.#random = new Random(world.random.next() * 2 ** 32);
    this.#id = world.fleet.timeline.add(this);
    this.#renew();
    world.fleet.timeline.set(this.#id, atMs);
  }

  get response(): Asked["response"] {
    return this.#history === 0 ? undefined : this.#response;
  }

  get cacheKey(): string | undefined {
    return this.#shape.hasKey ? `conversation-${this.#own.id}` : undefined;
  }

  act(): void {
    this.#world.fleet.ask(this);
  }

  ended(isServed: boolean, nowMs: number): void {
    const { fleet, endMs } = this.#world;
    if (nowMs >= endMs) return;
    if (!isServed) {
      fleet.timeline.set(this.#id, nowMs + retryMs);
      return;
    }
    this.#history += this.#added + this.outputTokens;
    const repeated = this.#shape.systemTokens + this.#history;
    this.#response.start = repeated - this.outputTokens;
    this.#response.end = repeated;
    this.#turnsLeft -= 1;
    if (this.#turnsLeft <= 0) {
      if (!this.#again) return;
      this.#renew();
    } else this.#nextTurn();
    fleet.timeline.set(this.#id, nowMs + this.#random.wait(this.#shape.thinkMs));
  }

  #renew(): void {
    const random = this.#random;
    const { systems, systemTokens } = this.#shape;
    const system = { id: -1 - systemNumber(this.#shape, Math.floor(random.next() * systems)), tokens: systemTokens };
    this.#own = { id: this.#world.newSegment(), tokens: 0 };
    this.segments = systemTokens > 0 ? [system, this.#own] : [this.#own];
    this.#history = 0;
    this.#turnsLeft = random.size(this.#shape.turns, 0.4);
    this.#nextTurn();
  }

  #nextTurn(): void {
    const random = this.#random;
    this.#added = random.size(this.#shape.turnTokens);
    this.outputTokens = random.size(this.#shape.outputTokens);
    this.#own.tokens = this.#history + this.#added;
  }
}

const systemNumbers = new Map<string, number>();

/** Accounts have system prompts of their own. */
function systemNumber({ account }: ConversationShape, index: number): number {
  const name = `${account} ${index}`;
  let number = systemNumbers.get(name);
  if (number === undefined) {
    number = systemNumbers.size;
    systemNumbers.set(name, number);
  }
  return number;
}

/** As many conversations at a time, started within `rampMs`. */
export function conversations(world: World, shape: ConversationShape, count: number, rampMs = 5_000): void {
  for (let i = 0; i < count; i++) new Conversation(world, shape, world.random.next() * rampMs, true);
}

/** Calls `arrive` at a rate per second that may change with time. */
class Arrivals implements Actor {
  readonly #world: World;
  readonly #rate: (nowMs: number) => number;
  readonly #arrive: (nowMs: number, random: Random) => void;
  /** A generator of these arrivals alone: other arrivals do not change their requests. */
  readonly #random: Random;
  readonly #id: number;

  constructor(world: World, rate: (nowMs: number) => number, arrive: (nowMs: number, random: Random) => void) {
    this.#world = world;
    this.#rate = rate;
    this.#arrive = arrive;
    this.#random = new Random(world.random.next() * 2 ** 32);
    this.#id = world.fleet.timeline.add(this);
    this.#next(0);
  }

  act(nowMs: number): void {
    this.#arrive(nowMs, this.#random);
    this.#next(nowMs);
  }

  #next(nowMs: number): void {
    const atMs = nowMs + this.#random.wait(1000 / this.#rate(nowMs));
    if (atMs < this.#world.endMs) this.#world.fleet.timeline.set(this.#id, atMs);
  }
}

/** Conversations that begin at a rate, each with a few turns. */
export function conversationArrivals(world: World, shape: ConversationShape, rate: (nowMs: number) => number): void {
  new Arrivals(world, rate, (nowMs) => new Conversation(world, shape, nowMs, false));
}

export interface DocumentShape {
  readonly account: string;
  readonly systemTokens: number;
  /** Documents of the library, chosen by Zipf's law, and their tokens. */
  readonly library: number;
  readonly documents: number;
  readonly documentTokens: number;
  readonly questionTokens: number;
  readonly outputTokens: number;
}

/** Questions about documents that are placed before them. Only equal beginnings are cached. */
export function questions(world: World, shape: DocumentShape, rate: (nowMs: number) => number): void {
  const { fleet, newSegment } = world;
  const { account } = shape;
  const system = -1 - systemNumber({ account } as ConversationShape, 0);
  const documents = Array.from({ length: shape.library }, newSegment);
  new Arrivals(world, rate, (_, random) => {
    const segments: Segment[] = [{ id: system, tokens: shape.systemTokens }];
    const chosen = new Set<number>();
    while (chosen.size < shape.documents) chosen.add(Math.floor(shape.library ** random.next()) - 1);
    // A document's cache holds only after the same ones before it.
    let after = 0;
    for (const index of [...chosen].sort((a, b) => a - b)) {
      after = (after * 31 + (documents[index] as number)) % 2_000_000_011;
      segments.push({ id: 1_000_000_000 + after, tokens: shape.documentTokens });
    }
    segments.push({ id: newSegment(), tokens: random.size(shape.questionTokens) });
    fleet.ask({ account, segments, outputTokens: random.size(shape.outputTokens), ended: () => {} });
  });
}

export interface SingleShape {
  readonly account: string;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** A value of `tierRank`. */
  readonly tier?: number;
  /** Weight of the account; default: 1. */
  readonly weight?: number;
}

/** Unrelated requests, as many at a time: a batch. */
export function backlog(world: World, shape: SingleShape, concurrency: number): void {
  conversations(
    world,
    { ...shape, systems: 1, systemTokens: 0, turnTokens: shape.promptTokens, turns: 1, thinkMs: 1 },
    concurrency,
  );
}

/** Unrelated requests at a rate. */
export function singles(world: World, shape: SingleShape, rate: (nowMs: number) => number): void {
  const { fleet, newSegment } = world;
  new Arrivals(world, rate, (_, random) =>
    fleet.ask({
      account: shape.account,
      segments: [{ id: newSegment(), tokens: random.size(shape.promptTokens) }],
      outputTokens: random.size(shape.outputTokens),
      tier: shape.tier,
      weight: shape.weight,
      ended: () => {},
    }),
  );
}

/** Calls `act` once. */
export function later(world: World, atMs: number, act: () => void): void {
  world.fleet.timeline.set(world.fleet.timeline.add({ act }), atMs);
}
