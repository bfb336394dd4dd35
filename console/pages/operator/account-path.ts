import type { Responses } from "../../../proto/gen/responses.ts";

export type Account = Responses["GET /v1/admin/accounts/{uid}"];

export const accountsPath = "/v1/admin/accounts";

export const pathOfAccount = (uid: string): string => `${accountsPath}/${encodeURIComponent(uid)}`;

/** Headers that read what the owner of the account sees. The audit log has it. */
export const asOwner = (uid: string): Readonly<Record<string, string>> => ({ "x-stoker-act-as": uid });
