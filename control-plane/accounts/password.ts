// Password hashes: argon2id of Node's crypto, with a secret outside the database, so that a dump alone does not allow guessing.
// Parameters are the OWASP minimum, and part of each hash, so that raising them keeps older hashes valid.
import { argon2, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { signInBusy } from "./errors.ts";

const parameters = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };
const saltBytes = 16;
/** Each uses 19 MiB and one of libuv's four threads. */
const maxConcurrent = 2;
const maxWaiting = 32;

const derive = promisify(argon2);

export function createPasswords(pepper: Buffer) {
  const secret = Buffer.from(hkdfSync("sha256", pepper, "", "stoker passwords", 32));
  const limited = limitConcurrency(maxConcurrent, maxWaiting);
  const tagOf = (password: string, nonce: Buffer, how: typeof parameters): Promise<Buffer> =>
    limited(() => derive("argon2id", { message: password.normalize("NFKC"), nonce, secret, ...how }));
  const decoy = encode(randomBytes(saltBytes), randomBytes(parameters.tagLength));

  return {
    /** Throws signInBusy, as both do. */
    async hash(password: string): Promise<string> {
      const salt = randomBytes(saltBytes);
      return encode(salt, await tagOf(password, salt, parameters));
    },
    /** Takes the same time with and without a hash; false without one. */
    async verify(password: string, hash: string | undefined): Promise<boolean> {
      const { salt, tag, how } = decode(hash ?? decoy);
      const isSame = timingSafeEqual(await tagOf(password, salt, { ...how, tagLength: tag.length }), tag);
      return isSame && hash !== undefined;
    },
  };
}

export type Passwords = ReturnType<typeof createPasswords>;

const base64 = (bytes: Buffer) => bytes.toString("base64").replace(/=+$/, "");

/** The usual text form of argon2 hashes. */
function encode(salt: Buffer, tag: Buffer): string {
  const { memory, passes, parallelism } = parameters;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`;
}

const form = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

function decode(hash: string) {
  const [, memory, passes, parallelism, salt = "", tag = ""] = form.exec(hash) ?? [];
  if (memory === undefined) throw new Error("a password hash in the database has an unknown form");
  return {
    salt: Buffer.from(salt, "base64"),
    tag: Buffer.from(tag, "base64"),
    how: { ...parameters, memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism) },
  };
}

/** Runs `maxRunning` calls at once, queues `maxQueued` more and throws signInBusy beyond. */
function limitConcurrency(maxRunning: number, maxQueued: number) {
  const queue: (() => void)[] = [];
  let running = 0;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= maxRunning) {
      if (queue.length >= maxQueued) throw signInBusy();
      await new Promise<void>((resolve) => queue.push(resolve));
    } else {
      running += 1;
    }
    try {
      return await work();
    } finally {
      const next = queue.shift();
      // Pass the slot to the next one without releasing it, so that no other call takes it.
      if (next) next();
      else running -= 1;
    }
  };
}
