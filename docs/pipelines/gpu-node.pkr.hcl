# A base image boots under Packer and is given packages; the toolkit then works on the disk that
# came of it, which does not run: modules for its own kernels, files for its first boot, passport.
# Last it is booted once, judged by the suite, and left as it was.
#
#   packer build -var base=https://…/debian-12-genericcloud-amd64.qcow2 -var checksum=… .

variable "base" {
  type        = string
  description = "Cloud image to begin with, and below its checksum as Packer writes it."
}

variable "checksum" {
  type = string
}

variable "site" {
  type        = string
  default     = "site.toml"
  description = "The site's own file for the toolkit: role, versions, waivers."
}

source "qemu" "node" {
  iso_url      = var.base
  iso_checksum = var.checksum
  disk_image   = true
  disk_size    = "20G"
  format       = "qcow2"
  accelerator  = "kvm"
  headless     = true
  # A cloud image lets in whom cloud-init tells it to: a CD called cidata (needs xorriso).
  cd_files         = ["${path.root}/cloud-init/meta-data", "${path.root}/cloud-init/user-data"]
  cd_label         = "cidata"
  output_directory = "output"
  vm_name          = "gpu-node.qcow2"
  # The toolkit needs none of this: it is the way in for the packages below.
  ssh_username     = "debian"
  ssh_password     = "only-while-packer-runs"
  ssh_timeout      = "10m"
  shutdown_command = "sudo sh -c 'rm -f /etc/ssh/sshd_config.d/50-cloud-init.conf; cloud-init clean --logs; passwd --lock debian; poweroff'"
}

build {
  sources = ["source.qemu.node"]

  provisioner "shell" {
    inline = [
      "sudo apt-get -q update",
      "sudo apt-get -q install -y dkms linux-headers-amd64 nvidia-open-kernel-dkms",
    ]
  }

  post-processor "shell-local" {
    inline = [
      "sudo gdr image --disk output/gpu-node.qcow2 --site ${var.site} --yes --boot --junit image.xml",
    ]
  }
}
