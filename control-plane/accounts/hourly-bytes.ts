import type { AccountId } from "../../proto/ids.ts";

const hourMs = 60 * 60 * 1000;
/** For one account. Responses are stored for an hour or a day. */
const maxHourlyBytes = 256 * 1024 * 1024;

/** Bytes of responses that this control plane stored for each account within the current hour. */
export class HourlyBytes {
  readonly #maxBytes: number;
  #endsMs = 0;
  readonly #bytes = new Map<AccountId, number>();

  constructor(maxBytes = maxHourlyBytes) {
    this.#maxBytes = maxBytes;
  }

  takes(account: AccountId, bytes: number): boolean {
    const now = performance.now();
    if (now >= this.#endsMs) {
      this.#bytes.clear();
      this.#endsMs = now + hourMs;
    }
    const sum = (this.#bytes.get(account) ?? 0) + bytes;
    if (sum > this.#maxBytes) return false;
    this.#bytes.set(account, sum);
    return true;
  }
}
