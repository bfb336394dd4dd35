import { Type } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { SshKey } from "../../accounts/store.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { PeopleFeatures } from "./features.ts";

const tag = "account";
const access = "key";

const SshKeyBody = Type.Object({
  id: Type.String(),
  name: Type.String(),
  key: Type.String(),
  fingerprint: Type.String({ description: "As ssh-keygen -l prints it" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
});

export function addSshKeyRoutes(endpoints: Endpoints, { sshKeys }: PeopleFeatures): void {
  endpoints.add({
    method: "GET",
    path: "/v1/ssh_keys",
    summary: "The account's SSH public keys",
    tag,
    access,
    answer: Type.Array(SshKeyBody),
    refusals: [503],
    handler: async ({ caller }) => (await sshKeys.list(caller.account)).map(rendered),
  });

  endpoints.add({
    method: "POST",
    path: "/v1/ssh_keys",
    summary: "Add an SSH public key",
    needsRecentSignIn: true,
    idempotent: true,
    tag,
    access,
    bodyLimitBytes: mediumBodyBytes,
    body: Type.Object({
      name: Type.String({ minLength: 1, maxLength: 64, pattern: "^[^\\u0000]*$" }),
      key: Type.String({ minLength: 1, maxLength: 32_000, description: "One line, as in a .pub file" }),
    }),
    answer: SshKeyBody,
    refusals: [409, 503],
    handler: async ({ caller, body }) => rendered(await sshKeys.add(caller.account, body.name, body.key)),
  });

  endpoints.add({
    method: "DELETE",
    path: "/v1/ssh_keys/:id",
    summary: "Delete an SSH public key",
    tag,
    access,
    params: Type.Object({ id: Type.String() }),
    answer: Type.Object({}),
    refusals: [404, 503],
    async handler({ caller, params }) {
      await sshKeys.remove(caller.account, params.id);
      return {};
    },
  });
}

function rendered({ id, name, key, fingerprint, createdAtMs }: SshKey) {
  return { id, name, key, fingerprint, created_at: unixSeconds(createdAtMs) };
}
