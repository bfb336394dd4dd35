import type { FastifyInstance } from "fastify";
import { Type } from "typebox";
import { loginIdForm } from "../../accounts/cli-login.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { restarting } from "../errors/errors.ts";
import type { PeopleFeatures } from "./features.ts";

export function addCliLoginRoutes(endpoints: Endpoints, app: FastifyInstance, { cliLogins }: PeopleFeatures): void {
  const open = endpoints.with({ tag: "account", access: "public" });

  // A wait of minutes must not delay shutdown.
  const closing = new AbortController();
  app.addHook("preClose", async () => closing.abort());

  open.get("/github/cli/login", {
    summary: "Wait until a person confirms this login at /login?cli=<login_id>; returns a key once",
    holdsSecrets: true,
    query: Type.Object({ login_id: Type.String({ pattern: loginIdForm, description: "32 random characters" }) }),
    answer: Type.Object({ access_token: Type.String() }),
    refusals: [404, 408, 429],
    async handler({ query, reply }) {
      const gone = new AbortController();
      reply.raw.once("close", () => gone.abort());
      const signal = AbortSignal.any([gone.signal, closing.signal]);
      const key = await cliLogins.wait(query.login_id, reply.request.ip, signal);
      if (key !== undefined) return { access_token: key };
      throw restarting();
    },
  });
}
