// Service tiers of a request, in the order in which the gate of an instance admits them.

export const serviceTiers = ["priority", "default", "flex", "batch"] as const;
export type ServiceTier = (typeof serviceTiers)[number];

/** 0 is admitted first. */
export const tierRank: Readonly<Record<ServiceTier, number>> = { priority: 0, default: 1, flex: 2, batch: 3 };
