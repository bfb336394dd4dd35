// Pages of links in mails, and the form that asks for a new password. They need no session: the link proves the mailbox.
import type { FastifyReply, FastifyRequest } from "fastify";
import { refusalOf } from "../errors/render-error.ts";
import type { AccountFeatures } from "./features.ts";
import {
  brokenLinkPage,
  forgotPage,
  forgotPath,
  mailLinkPaths,
  mailOnItsWayPage,
  passwordSetPage,
  resetPage,
  verifiedPage,
  verifyPage,
} from "./mail-pages.ts";
import { type AddPage, field, send } from "./page-replies.ts";
import { checkOrigin } from "./session.ts";

export function addMailPages(add: AddPage, { accountMails }: Pick<AccountFeatures, "accountMails">): void {
  const { verify_email: verifyPath, reset_password: resetPath } = mailLinkPaths;
  const attempt = { isAttempt: true };

  const forgot = (request: FastifyRequest, reply: FastifyReply) =>
    shown(
      request,
      reply,
      (refusal) => forgotPage(accountMails.canSend, refusal),
      async () => {
        await accountMails.requestReset(field(request.body, "email").slice(0, 320), request.ip);
        return mailOnItsWayPage();
      },
    );
  const reset = (request: FastifyRequest, reply: FastifyReply) => {
    const ticket = ticketOf(request.body);
    const again = (refusal: string, code: string) =>
      code === "mail_link_expired"
        ? brokenLinkPage(refusal, forgotPath, "Ask for a new one")
        : resetPage(ticket, refusal);
    return shown(request, reply, again, async () => {
      await accountMails.reset(ticket, field(request.body, "password").slice(0, 1024), request.ip);
      return passwordSetPage();
    });
  };
  const verify = (request: FastifyRequest, reply: FastifyReply) => {
    const ticket = ticketOf(request.body);
    const again = (refusal: string, code: string) =>
      code === "mail_link_expired"
        ? brokenLinkPage(refusal, "/console/security", "Ask for a new one in the console")
        : verifyPage(ticket, refusal);
    return shown(request, reply, again, async () => {
      await accountMails.verify(ticket, request.ip);
      return verifiedPage();
    });
  };

  add("GET", forgotPath, "Page that mails a link for a new password", async (_request, reply) =>
    send(reply, forgotPage(accountMails.canSend)),
  );
  add("POST", forgotPath, "Mail a link for a new password", forgot, attempt);
  add("GET", resetPath, "Page of a link for a new password", async (request, reply) =>
    send(reply, resetPage(ticketOf(request.query))),
  );
  add("POST", resetPath, "Set a new password by a link", reset, attempt);
  add("GET", verifyPath, "Page of a link that verifies an address", async (request, reply) =>
    send(reply, verifyPage(ticketOf(request.query))),
  );
  add("POST", verifyPath, "Verify an address by a link", verify, attempt);
}

const ticketOf = (of: unknown): string => field(of, "ticket").slice(0, 64);

/** Sends the page of `work`, or `again` with the error. */
async function shown(
  request: FastifyRequest,
  reply: FastifyReply,
  again: (refusal: string, code: string) => string,
  work: () => Promise<string>,
): Promise<FastifyReply> {
  try {
    checkOrigin(request);
    return send(reply, await work());
  } catch (error) {
    const refusal = refusalOf(error);
    if (request.state) request.state.refusal = refusal;
    if (refusal.retryAfterSeconds !== undefined)
      reply.header("retry-after", String(Math.ceil(refusal.retryAfterSeconds)));
    return send(reply.code(refusal.status), again(refusal.message, refusal.code));
  }
}
