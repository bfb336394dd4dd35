// Encrypts customers' secrets in the desired state (hub tokens, first-start scripts), so that a copy of the state file does not
// reveal them: AES-256-GCM with a key of this host, in a file beside it. The same key proves which Pods this agent created; the purpose
// keeps a text of the one from being taken for a text of the other.
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { chmodSync, readFileSync } from "node:fs";
import type { Logger } from "pino";
import { replaceFileSync } from "../../proto/replace-file.ts";

/** `desired state` is authenticated without its name, as the state files of earlier versions are. */
const purposes = { "desired state": "", pod: "stoker pod" } as const;
type Purpose = keyof typeof purposes;

export type TextSeal = ReturnType<ReturnType<typeof openTextSeals>>;

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

/**
 * Returns the seals of the key in `path`, which is created if missing and readable only by the agent. The control plane resends data of a
 * lost key.
 */
export function openTextSeals(path: string, log: Logger) {
  const key = read(path) ?? make(path, log);
  return (purpose: Purpose) => sealOf(key, Buffer.from(purposes[purpose]));
}

function sealOf(key: Buffer, purpose: Buffer) {
  return {
    seal(text: string) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(purpose);
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64");
    },
    /** Throws when the text was sealed with another key or for another purpose, or is damaged. */
    open(sealed: string) {
      const bytes = Buffer.from(sealed, "base64");
      const bodyAt = nonceBytes + tagBytes;
      const nonce = bytes.subarray(0, nonceBytes);
      const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
      decipher.setAAD(purpose);
      decipher.setAuthTag(bytes.subarray(nonceBytes, bodyAt));
      return Buffer.concat([decipher.update(bytes.subarray(bodyAt)), decipher.final()]).toString("utf8");
    },
  };
}

function read(path: string): Buffer | undefined {
  try {
    const key = Buffer.from(readFileSync(path, "utf8").trim(), "hex");
    if (key.length !== keyBytes) return undefined;
    chmodSync(path, 0o600);
    return key;
  } catch {
    return undefined;
  }
}

function make(path: string, log: Logger): Buffer {
  const key = randomBytes(keyBytes);
  try {
    replaceFileSync(path, `${key.toString("hex")}\n`);
  } catch (error) {
    log.warn(
      { err: error },
      "could not store the key of the state; the agent will wait for the control plane after a restart",
    );
  }
  return key;
}
