// What the rotation of the key-encryption key does to each kind of secret, and how it ends in words.
import { join } from "node:path";
import type { AccountId, HostId } from "../../proto/ids.ts";
import { type AccountSecrets, newestKek, unwrapDek, wrapDek } from "./envelope.ts";
import type { RotateDeps, Rotation } from "./rotate-kek.ts";
import { authoritySeal, ticketKeySeal } from "./seals.ts";
import { kekFile, type SecretFiles } from "./secret-files.ts";

export function resealers(secrets: AccountSecrets): RotateDeps["reseal"] {
  const tickets = ticketKeySeal(secrets);
  const authority = authoritySeal(secrets);
  return {
    "data keys": (id, sealed) =>
      wrapDek(newestKek(secrets), unwrapDek(secrets, sealed, id as AccountId), id as AccountId),
    "ticket keys": (id, sealed) => tickets.seal(tickets.open(sealed, id as HostId), id as HostId),
    "authority keys": (id, sealed) => authority.seal(authority.open(sealed, id), id),
  };
}

export function rotationReport(rotation: Rotation, secrets: SecretFiles): { text: string; isWhole: boolean } {
  const { version, resealed, left } = rotation;
  const done =
    `Key-encryption key ${version} is in use: ${resealed["data keys"]} data keys of accounts and ` +
    `${resealed["ticket keys"]} ticket keys of hosts were re-wrapped.`;
  const older = secrets.keks.filter((kek) => kek.version < version).map((kek) => kekFile(kek.version));
  if (left["data keys"] + left["ticket keys"] + left["authority keys"] > 0) {
    return {
      isWhole: false,
      text:
        `${done} ${left["data keys"]} data keys, ${left["ticket keys"]} ticket keys and ${left["authority keys"]} authority keys open under no key of ` +
        `${secrets.folder} and were left as they are. Remove no key file; put missing ones back from a backup, then run ` +
        "this again.",
    };
  }
  if (older.length === 0) return { isWhole: true, text: done };
  const files = older.map((file) => join(secrets.folder, file)).join(" and ");
  return {
    isWhole: true,
    text:
      `${done} None is left under an older one. Restored backups of the database from before need ` +
      `${older.join(" and ")}: keep ${older.length === 1 ? "it" : "them"} with those backups; here and on other machines ` +
      `${files} may be removed.`,
  };
}
