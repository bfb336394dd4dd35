// What one request of the data plane may hold, and how long each of its states may last.
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
  /** Longest wait for a usage record to be durable. */
  readonly recordMs: number;
  /** A connection may take so long for the head of a request, its first included. */
  readonly headMs: number;
  /** Longer than a gateway keeps an idle connection: the side that sends must be the one that closes. */
  readonly idleMs: number;
  /** What is open at a dashboard whose instance is ended is cut after this: a little later than its program would be killed. */
  readonly dashboardEndMs: number;
  /** Once a certificate of a connection has expired, its peer has so long to open another before new requests on it are refused. */
  readonly expiredPatienceMs: number;
  /** And what runs on it so long before it is cut. */
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
