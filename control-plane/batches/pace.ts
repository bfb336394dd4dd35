// When a line of a batch may begin: only in what requests that somebody waits for leave free. A share of each model's places
// stays theirs, and where any of them waits in an instance's queue no line begins at all.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Routes } from "../fleet/routes.ts";

export interface PaceDeps {
  readonly routes: Pick<Routes, "ready">;
  /** Requests in the queues of its instances, as their hosts last said. */
  readonly waiting: (model: DeploymentId) => number;
  /** Lines of one account at one model at a time, by this control plane. */
  readonly mostPerModel: number;
  /** Of this control plane, for another answer. */
  readonly hasRoom: () => boolean;
}

/** Of a model's places, for lines of batches. */
const share = 0.75;

export class Pace {
  readonly #deps: PaceDeps;
  readonly #lines = new Map<string, number>();
  readonly #ofModel = new Map<DeploymentId, number>();

  constructor(deps: PaceDeps) {
    this.#deps = deps;
  }

  mayBegin(account: AccountId, model: DeploymentId): boolean {
    if ((this.#lines.get(`${account} ${model}`) ?? 0) >= this.#deps.mostPerModel) return false;
    if (!this.#deps.hasRoom()) return false;
    const ready = this.#deps.routes.ready(model);
    // One line wakes a sleeping model; the others wait for its instance.
    if (ready.length === 0) return (this.#ofModel.get(model) ?? 0) === 0;
    let places = 0;
    let used = 0;
    for (const { maxBatchSize, inFlight } of ready) {
      places += Math.max(1, Math.floor(maxBatchSize * share));
      used += inFlight;
    }
    // A line that has begun is not on its way to an instance before its money is held.
    return Math.max(used, this.#ofModel.get(model) ?? 0) < places && this.#deps.waiting(model) === 0;
  }

  /** Call the answer when the line has ended, once. */
  begin(account: AccountId, model: DeploymentId): () => void {
    const key = `${account} ${model}`;
    move(this.#lines, key, 1);
    move(this.#ofModel, model, 1);
    return () => {
      move(this.#lines, key, -1);
      move(this.#ofModel, model, -1);
    };
  }
}

function move<Key>(counts: Map<Key, number>, key: Key, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
