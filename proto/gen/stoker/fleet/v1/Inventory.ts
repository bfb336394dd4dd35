// Original file: proto/fleet/v1/fleet.proto

import type { Gpu as _stoker_fleet_v1_Gpu, Gpu__Output as _stoker_fleet_v1_Gpu__Output } from '../../../stoker/fleet/v1/Gpu.ts';
import type { Disk as _stoker_fleet_v1_Disk, Disk__Output as _stoker_fleet_v1_Disk__Output } from '../../../stoker/fleet/v1/Disk.ts';
import type { NetworkInterface as _stoker_fleet_v1_NetworkInterface, NetworkInterface__Output as _stoker_fleet_v1_NetworkInterface__Output } from '../../../stoker/fleet/v1/NetworkInterface.ts';
import type { ContainerRules as _stoker_fleet_v1_ContainerRules, ContainerRules__Output as _stoker_fleet_v1_ContainerRules__Output } from '../../../stoker/fleet/v1/ContainerRules.ts';
import type { Long } from '@grpc/proto-loader';

export interface Inventory {
  'os'?: (string);
  'cpuModel'?: (string);
  'cpuCores'?: (number);
  'memoryBytes'?: (number | string | Long);
  'diskTotalBytes'?: (number | string | Long);
  'diskFreeBytes'?: (number | string | Long);
  'gpus'?: (_stoker_fleet_v1_Gpu)[];
  'drivers'?: (string)[];
  'dockerVersion'?: (string);
  'nvidiaDriverVersion'?: (string);
  'cudaVersion'?: (string);
  'cpuPhysicalCores'?: (number);
  'disks'?: (_stoker_fleet_v1_Disk)[];
  'networks'?: (_stoker_fleet_v1_NetworkInterface)[];
  'hasNvidiaRuntime'?: (boolean);
  'warnings'?: (string)[];
  'metricsAddress'?: (string);
  'recordsUnavailable'?: (string);
  'rentalImages'?: (string)[];
  'rentalsUnavailable'?: (string);
  'containers'?: (_stoker_fleet_v1_ContainerRules | null);
  'sleeps'?: (boolean);
  'wakesByAccount'?: (boolean);
}

export interface Inventory__Output {
  'os': (string);
  'cpuModel': (string);
  'cpuCores': (number);
  'memoryBytes': (string);
  'diskTotalBytes': (string);
  'diskFreeBytes': (string);
  'gpus': (_stoker_fleet_v1_Gpu__Output)[];
  'drivers': (string)[];
  'dockerVersion': (string);
  'nvidiaDriverVersion': (string);
  'cudaVersion': (string);
  'cpuPhysicalCores': (number);
  'disks': (_stoker_fleet_v1_Disk__Output)[];
  'networks': (_stoker_fleet_v1_NetworkInterface__Output)[];
  'hasNvidiaRuntime': (boolean);
  'warnings': (string)[];
  'metricsAddress': (string);
  'recordsUnavailable': (string);
  'rentalImages': (string)[];
  'rentalsUnavailable': (string);
  'containers': (_stoker_fleet_v1_ContainerRules__Output | null);
  'sleeps': (boolean);
  'wakesByAccount': (boolean);
}
