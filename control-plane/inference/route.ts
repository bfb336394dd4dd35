// Chooses the instance of a request: the one that has the least to do before the request's first token, in tokens of prompt
// (docs/adr/0015-route-by-expected-work.md).
import { randomBytes } from "node:crypto";
import { oncePer } from "../../proto/once-per.ts";
import type { Route } from "../fleet/routes.ts";
import { hashText } from "./hash.ts";
import type { PrefixHints } from "./prefix-hints.ts";
import { groupsOf, PrefixIndex } from "./prefix-index.ts";
import { PromptBlocks, type PromptScope, PromptScopes } from "./prompt-blocks.ts";
import { type AccountLoad, Reserve } from "./reserve.ts";

/** A running sequence delays a prompt as much as this many tokens of another prompt. */
const tokensPerSequence = 256;
/** The same for each sequence above the batch: the request waits until one of them ends. */
const tokensPerWaiting = 1_024;
/** The same for a new conversation. Its later turns follow it, so the load counts more than the prompt. */
const tokensPerSequenceOfNew = 1_024;
/** Weight of the prompt tokens that a new conversation shares with others: evaluated once more at an instance, they serve all of them. */
const sharedWeight = 0.25;
/** Instances within this many tokens of the best are equal. */
const equalTokens = 32;
/** A cache is judged only by predictions of at least this many tokens. */
const minJudgedTokens = 512;
/** Weight of the newest request in what is known of a cache. */
const trustGain = 0.1;
const maxTrusts = 4_096;
/** Deployments with more instances are not compared whole: only those that hold the longest parts of the prompt, and a sample of all. */
const maxCompared = 64;
const maxHolders = 24;
const sampleSize = 24;

/** An instance for a request, and the work that it is expected to cause there. */
export interface Choice {
  readonly route: Route;
  readonly sequences: number;
  /** Prompt tokens to evaluate. */
  readonly freshTokens: number;
  /** Prompt tokens that the instance evaluated before, as far as known. */
  readonly cachedTokens: number;
  /** Whose predictions `learn` corrects. */
  readonly judged: number;
  /** Load of its account; undefined where no instances are kept free. */
  readonly load: AccountLoad | undefined;
  /** Its prompt counts as waiting: sent and without a first byte. */
  isWaiting: boolean;
}

export interface RoutedPrompt {
  readonly blocks: PromptBlocks;
  /** Estimated size of the whole prompt. */
  readonly tokens: number;
  /** Sequences. */
  readonly sequences: number;
  /** Account and adapter of the blocks, by which caches are judged. */
  readonly scope: PromptScope;
}

export class Router {
  /** To describe the next prompt with: filled and read in one turn of the event loop. */
  readonly blocks = new PromptBlocks();
  readonly scopes: PromptScopes;
  readonly #random: () => number;
  readonly #index: PrefixIndex;
  readonly #hints: Pick<PrefixHints, "note"> | undefined;
  /** By scope and deployment: share of the predicted cached tokens that engines reported. */
  readonly #trusts = new Map<number, number>();
  readonly #reserve: Reserve;
  /** By position: share of the prompt that the instance evaluated; zeros between two choices. */
  #shares = new Float64Array(maxCompared);
  /** By candidate. */
  #scores = new Float64Array(maxCompared);
  #equals = new Int32Array(maxCompared);
  #positions = new Int32Array(maxCompared);
  #numbered = 0;
  readonly #holders = new Int32Array(maxHolders);
  readonly #some = new Int32Array(maxHolders + sampleSize);
  #isFree = false;

  /** `random`: from 0 up to, not including, 1. `hints`: undefined without other control planes. `scopes`: as theirs. `clock`: monotonic ms. */
  constructor(
    random: () => number = Math.random,
    index: PrefixIndex = new PrefixIndex(),
    hints?: Pick<PrefixHints, "note">,
    scopes: PromptScopes = new PromptScopes(randomBytes(32)),
    clock: () => number = () => performance.now(),
  ) {
    this.#random = random;
    this.#index = index;
    this.#hints = hints;
    this.scopes = scopes;
    this.#reserve = new Reserve(clock);
  }

  /**
   * Returns the best ready instance that was not tried yet; undefined if none is left. Prefers any with free batch slots; those
   * that are kept free of the account (reserve.ts) come last. Call `sent` when the request is sent there.
   */
  pick(ready: readonly Route[], tried: readonly Route[], prompt: RoutedPrompt): Choice | undefined {
    const count = ready.length;
    if (count === 0) return undefined;
    if (count > this.#scores.length) this.#grow(count);
    const { blocks, tokens, scope } = prompt;
    const fleet = fleetOf(ready);
    const shares = this.#shares;
    const isCompared = count <= maxCompared;
    let holders = 0;
    let isNew: boolean;
    if (isCompared) isNew = this.#index.match(blocks, fleet.slots, count, shares);
    else {
      const start = Math.floor(this.#random() * 4096);
      ({ count: holders, isNew } = this.#index.find(blocks, fleet.groups, start, this.#holders, shares));
    }
    const judged = hashText((ready[0] as Route).deployId, scope.place);
    const trust = blocks.count === 0 ? 0 : (this.#trusts.get(judged) ?? 1);
    const load = this.#reserve.loadOf(ready, scope.account);
    const { longest } = this.#index;
    const question = {
      prompt,
      tried,
      longest,
      continued: isNew ? longest : blocks.continued(longest),
      widest: fleet.widest,
      cachedWeight: isNew ? trust * sharedWeight : trust,
      perSequence: isNew ? tokensPerSequenceOfNew : tokensPerSequence,
      avoided: load && this.#reserve.avoidedBy(load, ready),
    };
    let at = isCompared
      ? this.#best(ready, this.#all(count), count, question)
      : this.#bestOfSome(ready, holders, question);
    // No candidate has a free slot, but another may have.
    if (!isCompared && !this.#isFree) at = this.#best(ready, this.#all(count), count, question);
    const share = at < 0 ? 0 : (shares[at] as number);
    if (isCompared) shares.fill(0, 0, count);
    else for (let i = 0; i < holders; i++) shares[this.#holders[i] as number] = 0;
    if (at < 0) return undefined;
    const route = ready[at] as Route;
    const fresh = blocks.indexOf(share) + 1;
    this.#index.note(blocks, route.slot, fresh);
    this.#hints?.note(route.instanceId, blocks, fresh);
    const cachedTokens = tokens * (share === longest ? question.continued : share);
    return {
      route,
      sequences: prompt.sequences,
      freshTokens: tokens - trust * cachedTokens,
      cachedTokens,
      judged,
      load,
      isWaiting: false,
    };
  }

  sent(choice: Choice): void {
    choice.isWaiting = true;
    choice.route.queuedTokens += choice.freshTokens;
    choice.route.inFlight += choice.sequences;
    if (choice.load) this.#reserve.started(choice.load, choice.sequences);
  }

  /** The prompt was evaluated. */
  sawFirstByte(choice: Choice): void {
    if (!choice.isWaiting) return;
    choice.isWaiting = false;
    choice.route.queuedTokens -= choice.freshTokens;
  }

  ended(choice: Choice): void {
    this.sawFirstByte(choice);
    choice.route.inFlight -= choice.sequences;
    if (choice.load) this.#reserve.ended(choice.load, choice.sequences);
  }

  /** `cached`: prompt tokens that the engine took from its cache, as it reports them. */
  learn({ cachedTokens, judged }: Choice, cached: number): void {
    if (cachedTokens < minJudgedTokens) return;
    const before = this.#trusts.get(judged) ?? 1;
    const trust = before + trustGain * (Math.min(1, cached / cachedTokens) - before);
    if (this.#trusts.size >= maxTrusts && !this.#trusts.has(judged))
      this.#trusts.delete(this.#trusts.keys().next().value as number);
    this.#trusts.set(judged, trust);
  }

  /** Compares the holders and a sample. */
  #bestOfSome(ready: readonly Route[], holders: number, question: Question): number {
    const some = this.#some;
    for (let i = 0; i < holders; i++) some[i] = this.#holders[i] as number;
    let size = holders;
    for (let i = 0; i < sampleSize; i++) {
      const at = Math.floor(this.#random() * ready.length);
      // Holders are candidates already; the same one twice does no harm.
      if (this.#shares[at] === 0) some[size++] = at;
    }
    return this.#best(ready, some, size, question);
  }

  /** Returns the position of the best of `size` candidates; -1 if all were tried. Sets `#isFree`: it has a free batch slot. */
  #best(ready: readonly Route[], candidates: Int32Array, size: number, question: Question): number {
    const { prompt, tried, longest, continued, widest, cachedWeight, perSequence, avoided } = question;
    const { tokens, sequences } = prompt;
    const [shares, scores] = [this.#shares, this.#scores];
    let best = Number.POSITIVE_INFINITY;
    let hasFree = false;
    let lastAt = -1;
    for (let i = 0; i < size; i++) {
      const at = candidates[i] as number;
      const route = ready[at] as Route;
      if (tried.length > 0 && isTried(route, tried)) {
        scores[i] = Number.POSITIVE_INFINITY;
        continue;
      }
      if (avoided !== undefined && avoided[at] === 1) {
        scores[i] = Number.POSITIVE_INFINITY;
        lastAt = at;
        continue;
      }
      const excess = route.inFlight + sequences - route.maxBatchSize;
      const isFree = excess <= 0;
      const share = shares[at] as number;
      const cached = share === longest ? continued : share;
      let score = tokens * (1 - cachedWeight * cached) + route.queuedTokens + perSequence * route.inFlight;
      // A larger batch is the only known measure of a faster instance.
      if (route.maxBatchSize !== widest) score *= widest / route.maxBatchSize;
      if (!isFree) score += excess * tokensPerWaiting;
      if (isFree && !hasFree) {
        hasFree = true;
        best = score;
        // Full ones are out from here on.
        scores.fill(Number.POSITIVE_INFINITY, 0, i);
      } else if (isFree !== hasFree) score = Number.POSITIVE_INFINITY;
      else if (score < best) best = score;
      scores[i] = score;
    }
    this.#isFree = hasFree;
    const found = this.#oneOfEqual(ready, candidates, size, best + equalTokens);
    return found < 0 ? lastAt : found;
  }

  /** Returns the less busy one of two random candidates that score at most `limit`; -1 if there is none. */
  #oneOfEqual(ready: readonly Route[], candidates: Int32Array, size: number, limit: number): number {
    if (limit === Number.POSITIVE_INFINITY) return -1;
    const scores = this.#scores;
    const equals = this.#equals;
    let count = 0;
    for (let i = 0; i < size; i++) if ((scores[i] as number) <= limit) equals[count++] = candidates[i] as number;
    const first = equals[Math.floor(this.#random() * count)] as number;
    if (count <= 1) return count === 0 ? -1 : first;
    const second = equals[Math.floor(this.#random() * count)] as number;
    const [one, other] = [ready[first] as Route, ready[second] as Route];
    const [left, right] = [one.inFlight * other.maxBatchSize, other.inFlight * one.maxBatchSize];
    return left <= right ? first : second;
  }

  /** All positions. */
  #all(count: number): Int32Array {
    const positions = this.#positions;
    for (let i = this.#numbered; i < count; i++) positions[i] = i;
    this.#numbered = Math.max(this.#numbered, count);
    return positions;
  }

  #grow(count: number): void {
    const size = 2 ** Math.ceil(Math.log2(count));
    this.#shares = new Float64Array(size);
    this.#scores = new Float64Array(size);
    this.#equals = new Int32Array(size);
    this.#positions = new Int32Array(size);
    this.#numbered = 0;
  }
}

interface Question {
  readonly prompt: RoutedPrompt;
  readonly tried: readonly Route[];
  readonly longest: number;
  /** Share of the prompt in the caches of instances that have the longest part. */
  readonly continued: number;
  readonly widest: number;
  readonly cachedWeight: number;
  readonly perSequence: number;
  readonly avoided: Uint8Array | undefined;
}

/** Facts about a list of routes, kept with it: the routing table returns the same list while it has the same members. */
const fleetOf = oncePer((ready: readonly Route[]) => {
  const slots = ready.map(({ slot }) => slot);
  let widest = 1;
  for (const { maxBatchSize } of ready) if (maxBatchSize > widest) widest = maxBatchSize;
  return { slots: Int32Array.from(slots), groups: groupsOf(slots), widest };
});

// Compares ids: a refresh of the table may have created a new object for the same instance.
function isTried(route: Route, tried: readonly Route[]): boolean {
  for (const one of tried) if (one.instanceId === route.instanceId) return true;
  return false;
}
