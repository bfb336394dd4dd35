/** Roles of an organisation's members, from the most rights to the fewest; permissions.ts says which right each holds. */
export const memberRoles = ["owner", "admin", "developer", "billing", "viewer"] as const;
export type MemberRole = (typeof memberRoles)[number];
