# rules.mk - what is handed on: a directory for hosts without root, a Debian package, lists of parts
#
# Times are the commit's, so the same commit gives the same bytes.
BUNDLE_MPI = host
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),1)
ifneq ($(filter-out host own,$(BUNDLE_MPI)),)
$(error BUNDLE_MPI is host or own, not $(BUNDLE_MPI))
endif
bundle_mpi := $(if $(filter own,$(BUNDLE_MPI)),$(B)/openmpi)
bundle_name = mikoshi-$(VERSION)-$(machine)$(if $(bundle_mpi),-openmpi)
bundle_dir = $(B)/bundle/$(bundle_name)
packaging = VERSION='$(VERSION)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' sh packaging

# Open MPI is built once; a new script builds it again.
$(B)/openmpi: packaging/openmpi.sh
	$(call say,MPI,$@)
	$(Q)$(packaging)/openmpi.sh $@
bundle: all $(bundle_mpi)
	$(Q)rm -rf $(bundle_dir)
	$(Q)$(MAKE) -s -o all install DESTDIR=$(bundle_dir) PREFIX=
	$(Q)$(packaging)/bundle.sh $(bundle_dir) $(bundle_mpi)
# The list of a bundle's parts, which is in the bundle too.
sbom: bundle
	$(Q)cp $(bundle_dir)/share/doc/mikoshi/sbom.spdx.json $(bundle_dir).spdx.json
	@echo $(bundle_dir).spdx.json
deb: all
	$(Q)rm -rf $(B)/deb
	$(Q)$(MAKE) -s -o all install DESTDIR=$(B)/deb/root PREFIX=/usr
	$(Q)$(packaging)/deb.sh $(B)/deb
# Bundles in a bare root, packages in a clean one, two builds compared: minutes, as root. One after
# another, since they make in one build directory.
test-packaging: all
	@B=$(B) JOBS=1 sh tests/run.sh packaging
.PHONY: bundle sbom deb test-packaging
