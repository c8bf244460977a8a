/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h - how far a host's part in a job is. Whoever has a record of a host uses these, or some of them.
 */
#ifndef HVD_STAGE_H
#define HVD_STAGE_H

enum hvd_stage {
	HVD_STAGE_AWAY,       /* not awaited, or no longer */
	HVD_STAGE_COMING,     /* its agent was started, and has not registered yet */
	HVD_STAGE_REGISTERED, /* has described itself */
	HVD_STAGE_PROBING,    /* has the order to probe */
	HVD_STAGE_REPORTED,   /* has sent what it reached */
	HVD_STAGE_HERE,       /* is part of the job */
	HVD_STAGE_LEAVING,    /* is no longer needed, and has not ended yet */
	HVD_N_STAGES,
};

#endif
