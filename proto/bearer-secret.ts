// A secret that one process sends to another as `Authorization: Bearer`. Logs and JSON never show it.
import { timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { isMessagesApi, messagesVersionOf, type ServerApi } from "./api-formats.ts";

export class BearerSecret {
  readonly #header: string;
  readonly #expected: Buffer;

  /** Throws for a secret that a header cannot hold. */
  constructor(secret: string) {
    if (!/^[\x21-\x7e]{1,4096}$/.test(secret))
      throw new Error("a bearer secret must be 1 to 4096 printable ASCII characters without spaces");
    this.#header = `Bearer ${secret}`;
    this.#expected = Buffer.from(this.#header);
  }

  get header(): string {
    return this.#header;
  }

  /** The secret itself, for a header of its own. */
  get key(): string {
    return this.#header.slice("Bearer ".length);
  }

  /** Compares in constant time for a given length. */
  matches(authorization: string | undefined): boolean {
    const given = Buffer.from(authorization ?? "", "latin1");
    return given.length === this.#expected.length && timingSafeEqual(given, this.#expected);
  }

  /** Replaces the secret in a text that a server sent, plain or within JSON. */
  hideIn(text: Buffer): Buffer {
    if (!text.includes(this.key.slice(0, 4))) return text;
    const quoted = JSON.stringify(this.key).slice(1, -1);
    return Buffer.from(
      text.toString("latin1").replaceAll(this.key, "[secret]").replaceAll(quoted, "[secret]"),
      "latin1",
    );
  }

  toJSON(): string {
    return "[secret]";
  }
  toString(): string {
    return "[secret]";
  }
}

/** Throws when the file cannot be read or holds no secret. White space around the secret is ignored. */
export const readBearerSecret = (file: string): BearerSecret => new BearerSecret(readFileSync(file, "utf8").trim());

/** Address of an engine, and the secret that it requires; undefined: none. */
export interface EngineAddress {
  readonly origin: string;
  readonly secret?: BearerSecret | undefined;
  /** Default: openai. */
  readonly api?: ServerApi | undefined;
}

/** Headers of every request to it. */
export const authorizationFor = ({ secret, api }: Pick<EngineAddress, "secret" | "api">): Record<string, string> => {
  if (isMessagesApi(api))
    return { "anthropic-version": messagesVersionOf(api), ...(secret ? { "x-api-key": secret.key } : {}) };
  return secret ? { authorization: secret.header } : {};
};
