import { sql } from "kysely";
import type { ClaimedMail, MailStore } from "../../mail/store.ts";
import type { NewMail } from "../../new-mail.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { interval, now } from "../core/time.ts";

/** Maximum mails of an account in 24 hours: settings of a customer must not flood a mailbox. Notices may follow as many others. */
const maxPerDay = { others: 20, notices: 40 };

/** An organisation has no address, only its id in place of one: its mails go to the owner who is one the longest. */
const addressee = sql`coalesce((
  select m.person_id from member m join account p on p.account_id = m.person_id
  where account.email = account.account_id and m.account_id = account.account_id and m.role = 'owner' and p.email_verified
  order by m.created_at, m.member_id limit 1), account.account_id)`;

/**
 * Queues a mail to the account's address; false if that is not verified, and at the account's maximum. A mail with a link also goes to an
 * address that is not verified, if its domain has a dot; callers limit those mails.
 */
export async function queueMail(trx: Trx, mail: NewMail): Promise<boolean> {
  const { id, account, subject, text } = mail;
  const link = mail.link ?? null;
  const { numAffectedRows = 0n } = await sql`
    insert into mail (mail_id, account_id, recipient, subject, body, link)
    select ${id}, account.account_id, a.email, ${subject}, ${text}, ${link}::text
    from account join account a on a.account_id = case when ${link}::text is null then ${addressee} else account.account_id end
    where account.account_id = ${account} and account.deleted_at is null and (${link}::text is not null and a.email like '%@%.%' or ${link}::text is null and a.email_verified and
      (select count(*) from mail m where m.account_id = ${account} and link is null
        and created_at > now() - interval '1 day') < ${maxPerDay[mail.isNotice ? "notices" : "others"]}::integer)`.execute(
    trx,
  );
  return numAffectedRows > 0n;
}

/** Mails of invitations that an organisation sends in 24 hours. */
const maxInvitationsPerDay = 50;

/** Queues a mail with the link of an invitation to an address that need not have an account. False at the organisation's maximum. */
export async function queueInvitation(trx: Trx, mail: NewMail, to: string): Promise<boolean> {
  const { id, account, subject, text } = mail;
  const { numAffectedRows = 0n } = await sql`
    insert into mail (mail_id, account_id, recipient, subject, body, link)
    select ${id}, ${account}, ${to}, ${subject}, ${text}, 'join_organization'
    where (select count(*) from mail m where m.account_id = ${account} and link = 'join_organization'
      and created_at > now() - interval '1 day') < ${maxInvitationsPerDay}`.execute(trx);
  return numAffectedRows > 0n;
}

export function createMailStore(db: Db): MailStore {
  return asked<MailStore>({
    async claim(max, lockMs) {
      const { rows } = await sql<ClaimedMail>`
        update mail set attempts = attempts + 1, due_at = now() + ${interval(lockMs)}
        where mail_id in (
          select mail_id from mail where state = 'pending' and due_at <= now() order by due_at limit ${max} for update skip locked)
        returning mail_id as id, account_id as account, recipient as to, subject, body as text, link, attempts`.execute(
        db,
      );
      return rows;
    },

    async sent(id) {
      await db
        .updateTable("mail")
        .set({ state: "sent", finishedAt: now, error: "" })
        .where("mailId", "=", id)
        .execute();
    },

    async failed(id, error, retryMs) {
      const next =
        retryMs === undefined
          ? ({ state: "failed", finishedAt: now } as const)
          : { dueAt: sql<Date>`now() + ${interval(retryMs)}` };
      await db
        .updateTable("mail")
        .set({ ...next, error })
        .where("mailId", "=", id)
        .execute();
    },
  });
}
