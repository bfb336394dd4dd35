import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";

export function addAdminMail(program: Command): void {
  adminGroup(program)
    .command("mail")
    .description("mail server of this installation")
    .command("test <address>")
    .description("send a test mail and wait for the mail server's reply")
    .example("stoker admin mail test ops@example.com")
    .run(async (terminal, to: string) => {
      const sent = await terminal.api.call<Responses["POST /v1/admin/mail/test"]>("POST", "/v1/admin/mail/test", {
        to,
      });
      terminal.show(sent, () => `The mail server accepted a test mail to ${to}.`);
    });
}
