import { Type } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { SshKey } from "../../accounts/store.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { AccountFeatures } from "./features.ts";

const SshKeyBody = Type.Object({
  id: Type.String(),
  name: Type.String(),
  key: Type.String(),
  fingerprint: Type.String({ description: "As ssh-keygen -l prints it" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
});

export function addSshKeyRoutes(endpoints: Endpoints, { sshKeys }: AccountFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key" });

  own.get("/v1/ssh_keys", {
    isOpenToOperators: true,
    summary: "List the account's SSH public keys",
    answer: Type.Array(SshKeyBody),
    handler: async ({ caller }) => (await sshKeys.list(caller.account)).map(rendered),
  });

  own.post("/v1/ssh_keys", {
    summary: "Add an SSH public key",
    needsRecentSignIn: true,
    idempotent: true,
    bodyLimitBytes: mediumBodyBytes,
    body: Type.Object({
      name: Type.String({ minLength: 1, maxLength: 64, pattern: "^[^\\u0000]*$" }),
      key: Type.String({ minLength: 1, maxLength: 32_000, description: "One line, as in a .pub file" }),
    }),
    answer: SshKeyBody,
    refusals: [409],
    handler: async ({ caller, body }) =>
      rendered(await sshKeys.add(caller.account, body.name, body.key, caller.member?.id)),
  });

  own.delete("/v1/ssh_keys/:id", {
    summary: "Delete an SSH public key",
    refusals: [404],
    handler: ({ caller, params }) => sshKeys.remove(caller.account, params.id),
  });
}

function rendered({ id, name, key, fingerprint, createdAtMs }: SshKey) {
  return { id, name, key, fingerprint, created_at: unixSeconds(createdAtMs) };
}
