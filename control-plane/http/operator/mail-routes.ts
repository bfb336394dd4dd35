// Tests the mail server.
import { Type } from "typebox";
import { randomId } from "../../../proto/ids.ts";
import { MailRefused, mailFailed, noMailServer } from "../../mail/mail-server.ts";
import { emailPattern } from "../accounts/account-schemas.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { OperatorFeatures } from "./features.ts";

const Request = Type.Object({
  to: Type.String({ maxLength: 320, pattern: emailPattern, description: "Address that receives the test" }),
});
const Answer = Type.Object({ accepted: Type.Boolean({ description: "The mail server accepted the mail" }) });

export function addMailRoutes(endpoints: Endpoints, { mailServer }: Pick<OperatorFeatures, "mailServer">): void {
  endpoints.with({ tag: "operator", access: "admin" }).post("/v1/admin/mail/test", {
    summary: "Send a test mail through the mail server of this installation, and wait for its reply",
    body: Request,
    answer: Answer,
    refusals: [409, 502],
    async handler({ body: { to } }) {
      if (!mailServer) throw noMailServer();
      const text = "The mail server of this Stoker installation works.";
      try {
        await mailServer.send({ id: `test_${randomId(16)}`, to, subject: "Test mail of Stoker", text });
      } catch (error) {
        throw error instanceof MailRefused ? mailFailed(error) : error;
      }
      return { accepted: true };
    },
  });
}
