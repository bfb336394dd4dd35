import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { TerminalKind } from "../../terminals/store.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";

const TerminalInfo = Type.Object({
  available: Type.Boolean({ description: "A terminal can be opened now" }),
  reason: nullable.string({ description: "Why none can be opened" }),
});

const TerminalTicket = Type.Object({
  path: Type.String({
    description: "Path of the WebSocket; send the subprotocols `stoker-terminal` and `ticket.` with the ticket",
  }),
  ticket: Type.String({ description: "Opens one terminal" }),
  valid_seconds: Type.Integer(),
});

export function addTerminalRoutes(endpoints: Endpoints, { terminals }: DeploymentFeatures): void {
  add("container", "containers", "/v1/containers/:container_id/terminal", "container");
  add("agent_instance", "agents", "/v1/agent/:instance_id/terminal", "agent instance");

  function add(kind: TerminalKind, tag: string, path: string, name: string): void {
    const own = endpoints.with({ tag, access: "key" });
    const idOf = (params: Readonly<Record<string, string>>) => Object.values(params)[0] as DeploymentId;

    own.get(path, {
      isOpenToOperators: true,
      summary: `Check whether a terminal of the ${name} can be opened`,
      answer: TerminalInfo,
      refusals: [404],
      async handler({ caller, params }) {
        const refused = await terminals.whyNot({ id: idOf(params), kind, account: caller.account });
        return { available: refused === undefined, reason: refused?.message ?? null };
      },
    });
    own.post(path, {
      summary: `Create a ticket for a terminal of the ${name}`,
      holdsSecrets: true,
      answer: TerminalTicket,
      refusals: [404, 409, 423],
      async handler({ caller, params, reply: { request } }) {
        const { account, suspendReason } = caller;
        const by = {
          ip: request.ip,
          key: caller.key || undefined,
          login: request.state?.session?.lookup,
          member: caller.member?.id,
        };
        const made = await terminals.ticket({ id: idOf(params), kind, account, suspendReason }, by);
        return { path: "/v1/terminal", ticket: made.ticket, valid_seconds: made.validSeconds };
      },
    });
  }
}
