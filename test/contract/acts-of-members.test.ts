// Changes by a member of an organisation reach the parts that audit them with the person, not with the organisation.
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { agentId, backupId } from "../fakes/agent-instance-ports.ts";
import { fakeMembers, organization } from "../fakes/member-ports.ts";
import { adasSession, type FakeSessions, fakePorts } from "../fakes/ports.ts";

const agent = `/v1/agent/${agentId}`;
const model = "/models/org/model";
type Change = readonly [verb: string, method: "POST" | "DELETE", url: string, body?: object];
const changes: readonly Change[] = [
  [
    "containers.create",
    "POST",
    "/v1/containers",
    { name: "one", gpu_config: "1xB200-180GB", container_image: "image", cloud_init_user_data: "#!/bin/sh" },
  ],
  ["agentInstances.create", "POST", "/v1/agent", { name: "one", agent_type_id: "workspace" }],
  ["agentBackups.backup", "POST", `${agent}/backup`],
  ["agentBackups.restore", "POST", `${agent}/backups/${backupId}/restore`],
  ["agentBackups.tryRestore", "POST", `${agent}/backups/${backupId}/verify`],
  ["agentBackups.remove", "DELETE", `${agent}/backups/${backupId}`],
  ["webhooks.rotate", "POST", "/v1/webhooks/secret/rotate"],
  ["webhooks.replay", "POST", "/v1/webhooks/deliveries/msg_1/replay"],
  ["modelRecords.change", "POST", `${model}/meta`, { description: "new" }],
  ["modelRecords.show", "POST", `${model}/publicity`, { public: true }],
  ["modelRecords.remove", "DELETE", `${model}?version=ALL`],
];

describe("a change by a member", () => {
  let app: FastifyInstance;
  const told: { readonly verb: string; readonly given: readonly unknown[] }[] = [];
  const person = adasSession.caller.account;

  beforeAll(async () => {
    const { deps } = fakePorts();
    const { open } = deps.sessions as FakeSessions;
    open.set(adasSession.cookie, adasSession);
    const recorded: Record<string, object> = {};
    for (const [name] of changes) {
      const [part = "", verb = ""] = name.split(".");
      recorded[part] ??= { ...(deps as unknown as Record<string, object>)[part] };
      Object.assign(recorded[part], {
        [verb]: async (...given: readonly unknown[]) => {
          told.push({ verb: name, given });
          throw new Error("told");
        },
      });
    }
    app = await createHttp({
      ...deps,
      ...recorded,
      members: fakeMembers((id) => (id === person ? "owner" : undefined)),
    });
  });
  afterAll(() => app.close());

  it.each(changes.map((change) => [change[0], change] as const))("names the person to %s", async (_, change) => {
    const [verb, method, url, body] = change;
    told.length = 0;
    await app.inject({
      method,
      url,
      headers: {
        cookie: `session=${adasSession.cookie}`,
        "x-csrf-token": adasSession.csrfToken,
        "x-stoker-act-as": organization,
      },
      ...(body && { payload: body }),
    });
    expect(told.map((one) => one.verb)).toEqual([verb]);
    const { given } = told[0] as (typeof told)[number];
    const acts = given.flatMap((one) => {
      if (typeof one !== "object" || one === null) return [];
      const { act, ...rest } = one as { readonly act?: object };
      return [rest, act ?? {}].flatMap((found) => ("by" in found ? [found.by] : []));
    });
    expect(acts).toEqual([person]);
  });
});
