// Every table, for Kysely. Names are camelCase here and snake_case in PostgreSQL (store/core/database.ts). bigint columns are read as
// bigint; times are timestamptz. Money is nano-USD. Every table that a customer can see has account_id.

import type { Kysely, Transaction } from "kysely";
import type { DeploymentsTables } from "../deployments/tables.ts";
import type { FleetTables } from "../fleet/tables.ts";
import type { ModelsTables } from "../models/tables.ts";
import type { MoneyTables } from "../money/tables.ts";
import type { PeopleTables } from "../people/tables.ts";
import type { WorkTables } from "../work/tables.ts";
import type { CoreTables } from "./tables.ts";

export interface Database
  extends CoreTables,
    PeopleTables,
    MoneyTables,
    FleetTables,
    DeploymentsTables,
    ModelsTables,
    WorkTables {}

export type Db = Kysely<Database>;
export type Trx = Transaction<Database>;
