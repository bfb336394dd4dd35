// Limits of one request on the data plane: the bytes it holds and the duration of each of its states.
import { expiredEndMs } from "../../proto/peer-tls.ts";

export interface Limits {
  readonly maxBodyBytes: number;
  /** Bodies of all requests that run or wait; above it new ones are `busy`. */
  readonly maxHeldBodyBytes: number;
  readonly maxAnswerBytes: number;
  readonly maxWaitMs: number;
  /** Waiters per instance; default 4 times its batch, at least 200. */
  readonly queueLimit?: number;
  readonly firstByteMs: number;
  /** Longest silence of an engine after its first byte. */
  readonly gapMs: number;
  /** Longest time a gateway may leave bytes unread. */
  readonly stalledClientMs: number;
  readonly recordMs: number;
  /** Maximum time for the head of a request, also the first on a connection. */
  readonly headMs: number;
  /** Longer than a gateway keeps an idle connection: the side that sends must be the one that closes. */
  readonly idleMs: number;
  /** Time after which connections to a dashboard of a stopped instance are cut: slightly after its program is killed. */
  readonly dashboardEndMs: number;
  /** Time after the expiry of a certificate in which its peer opens another connection; then new requests are refused. */
  readonly expiredPatienceMs: number;
  /** Time after the expiry at which running requests on the connection are cut. */
  readonly expiredEndMs: number;
}

export const defaultLimits: Limits = {
  maxBodyBytes: 50 * 1024 * 1024,
  maxHeldBodyBytes: 512 * 1024 * 1024,
  maxAnswerBytes: 64 * 1024 * 1024,
  maxWaitMs: 60_000,
  firstByteMs: 600_000,
  gapMs: 120_000,
  stalledClientMs: 120_000,
  recordMs: 10_000,
  headMs: 60_000,
  idleMs: 75_000,
  dashboardEndMs: 20_000,
  expiredPatienceMs: 60_000,
  expiredEndMs,
};
